/* SPDX-License-Identifier: Apache-2.0
 * src/api/openapi.h - docs/openapi.json, as it is: tools/embed makes it a part of the program. */
#ifndef BERTH_API_OPENAPI_H
#define BERTH_API_OPENAPI_H

#include <stddef.h>

extern const char berth_api_openapi[];
extern const size_t berth_api_openapi_len;
#endif
