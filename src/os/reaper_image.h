/* SPDX-License-Identifier: Apache-2.0
 * src/os/reaper_image.h - the program src/init/reaper.c, which the build puts into the library. */
#ifndef BERTH_OS_REAPER_IMAGE_H
#define BERTH_OS_REAPER_IMAGE_H

#include <stddef.h>

extern const char berth_reaper_image[];
extern const size_t berth_reaper_image_len;
#endif
