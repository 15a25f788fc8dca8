/* SPDX-License-Identifier: Apache-2.0
 * src/os/init_image.h - the program of an init (src/init/init.c), which the build puts into the
 * library. */
#ifndef BERTH_OS_INIT_IMAGE_H
#define BERTH_OS_INIT_IMAGE_H

#include <stddef.h>

extern const char berth_init_image[];
extern const size_t berth_init_image_len;
#endif
