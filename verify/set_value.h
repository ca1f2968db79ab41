// SPDX-License-Identifier: MIT
// One named value of a decoder, and what it is to be instead: a controlled intervention.
#pragma once

#include <optional>
#include <string_view>

#include "engine/config.h"
#include "engine/site.h"

namespace kvcheck {

// Indices that name one value at a site; -1 where the site has no such index.
struct ValueIndex {
  int row = -1;     // of the sequence's log, from 0
  int key = -1;     // at sites of rows that are read: which row of the log
  int head = -1;    // query head, at keys and values K/V head
  int column = -1;  // within the head, or the row

  bool operator==(const ValueIndex&) const = default;
};

// What of a value's index a site has.
struct IndexParts {
  bool key;
  bool head;
  bool column;
};
[[nodiscard]] IndexParts parts_of(Site site);
// How many columns a line of a site has for each head; 0 where it has no heads.
[[nodiscard]] int head_columns(Site site, const Config& config);

struct SetValue {
  Site site;
  int layer = -1;  // -1 outside the layers
  int sequence = 0;
  ValueIndex at;
  double value = 0;

  bool operator==(const SetValue&) const = default;
};

// [layerL.]SITE[sequence S][row R][key K][head H][C]=VALUE, with just those indices that the site
// has; [sequence 0] may be left out. "layer1.key[row 2][head 0][3]=0.5",
// "layer0.scores[row 2][key 1][head 0]=nan", "logits[row 2][5]=-1". Throws Error naming `where` for
// anything else, and for a layer, head or column that the model does not have.
[[nodiscard]] SetValue parse_set_value(std::string_view text, const Config& config,
                                       std::string_view where);

}  // namespace kvcheck
