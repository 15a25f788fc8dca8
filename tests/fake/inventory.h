/* SPDX-License-Identifier: Apache-2.0
 * tests/fake/inventory.h - a provider whose places are files, so that what lives there can be
 * counted by other processes after a kill. */
#ifndef BERTH_TESTS_INVENTORY_H
#define BERTH_TESTS_INVENTORY_H

#include <berth/driver.h>

/* The sandbox provider `inventory`: a place is the file <lease id> in `directory`, made with
 * O_EXCL; its id is "inventory://<lease id>". A parked place has ".parked" beside its name.
 * Config: {"reuseLease":bool, "resume":"gone"|"fail", "acquire":"fail"}. */
int inventory_new(const char *directory, struct berth_driver **out, struct berth_error *err);

/* How many places there are, and whether this one is. */
int inventory_count(const char *directory);
bool inventory_has(const char *directory, const char *place_id);
#endif
