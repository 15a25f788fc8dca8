/* SPDX-License-Identifier: Apache-2.0
 * src/base/redact.h - what may be shown of commands and environments: BERTH_REDACTED stands where a
 * secret stood. It goes by names and shapes and so is a second line of defence; values that are
 * known to be secret are masked by crypto/mask.h. In doubt a value is hidden. */
#ifndef BERTH_BASE_REDACT_H
#define BERTH_BASE_REDACT_H

#include <berth/common.h>

/* One line for people, quoted as sh wants it. Hidden are, in every word and in texts inside of
 * words (scripts, JSON, URLs): values of secret names after `=`, `:` or as an option's next word;
 * what follows Bearer and its like there; passwords in URLs; and what looks like a token of OpenAI
 * or GitHub, or like a JWT. NULL: no memory, which the arena remembers. */
const char *berth_redact_command(struct berth_arena *arena, const char *const *argv);
#endif
