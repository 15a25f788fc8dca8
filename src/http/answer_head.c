/* SPDX-License-Identifier: Apache-2.0
 * src/http/answer_head.c - see answer_head.h. */
#include "http/answer_head.h"

#include "base/json.h"

#define REFUSAL_BYTES_MAX 4096

const char *berth_http_reason(int status)
{
    static const struct {
        int status;
        const char *reason;
    } known[] = {{101, "Switching Protocols"},
                 {200, "OK"},
                 {201, "Created"},
                 {202, "Accepted"},
                 {204, "No Content"},
                 {206, "Partial Content"},
                 {304, "Not Modified"},
                 {400, "Bad Request"},
                 {401, "Unauthorized"},
                 {403, "Forbidden"},
                 {404, "Not Found"},
                 {405, "Method Not Allowed"},
                 {408, "Request Timeout"},
                 {409, "Conflict"},
                 {411, "Length Required"},
                 {413, "Content Too Large"},
                 {414, "URI Too Long"},
                 {415, "Unsupported Media Type"},
                 {416, "Range Not Satisfiable"},
                 {417, "Expectation Failed"},
                 {421, "Misdirected Request"},
                 {422, "Unprocessable Content"},
                 {426, "Upgrade Required"},
                 {429, "Too Many Requests"},
                 {431, "Request Header Fields Too Large"},
                 {499, "Client Closed Request"},
                 {500, "Internal Server Error"},
                 {501, "Not Implemented"},
                 {502, "Bad Gateway"},
                 {503, "Service Unavailable"},
                 {504, "Gateway Timeout"},
                 {505, "HTTP Version Not Supported"}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].status == status)
            return known[i].reason;
    return "Unknown";
}

void berth_http_write_head(struct berth_buf *out, const struct berth_http_answer *answer,
                           const char *request_id, bool endless)
{
    berth_buf_printf(out, "HTTP/1.1 %d %s\r\n", answer->status, berth_http_reason(answer->status));
    if (answer->type)
        berth_buf_printf(out, "Content-Type: %s\r\n", answer->type);
    if (!endless && answer->status != 204 && answer->status != 304)
        berth_buf_printf(out, "Content-Length: %zu\r\n",
                         answer->fixed ? answer->fixed_len : answer->body.len);
    berth_buf_printf(out,
                     "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
                     "X-Request-Id: %s\r\n",
                     request_id);
    for (int i = 0; i < BERTH_HTTP_MORE_MAX && answer->more[i].name; i++)
        berth_buf_printf(out, "%s: %s\r\n", answer->more[i].name, answer->more[i].value);
}

const char *berth_http_refusal_code(int status)
{
    switch (status) {
    case 401:
        return berth_code_wire(BERTH_E_UNAUTHORIZED);
    case 408:
        return berth_code_wire(BERTH_E_TIMEOUT);
    case 413:
        return berth_code_wire(BERTH_E_TOO_LARGE);
    case 501:
        return berth_code_wire(BERTH_E_UNSUPPORTED);
    case 503:
        return berth_code_wire(BERTH_E_UNAVAILABLE);
    default:
        return berth_code_wire(BERTH_E_INVALID);
    }
}

void berth_http_write_refusal(int status, const char *why, struct berth_http_answer *answer)
{
    *answer = (struct berth_http_answer){
        .status = status, .type = "application/json", .body = BERTH_BUF_INIT(REFUSAL_BYTES_MAX)};
    struct berth_json_writer w = {.buf = &answer->body};
    if (status == 503)
        answer->more[0] = (struct berth_http_header){"Retry-After", "1"};
    if (status == 401)
        answer->more[0] = (struct berth_http_header){"WWW-Authenticate", "Bearer"};
    berth_json_open(&w, '{');
    berth_json_put_str(&w, "error", why);
    berth_json_put_str(&w, "code", berth_http_refusal_code(status));
    berth_json_close(&w, '}');
}
