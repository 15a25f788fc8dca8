/* SPDX-License-Identifier: Apache-2.0
 * src/cli/table.c - see table.h. */
#include "cli/table.h"

#include <stdio.h>
#include <string.h>
#include <wchar.h>

#include "base/limits.h"
#include "base/utf8.h"
#include "cli/client.h"
#include "cli/print.h"

#define COLUMNS_MAX 12
#define CELL_MIN 6 /* columns that a text keeps when it is cut */
#define ID_MIN 13  /* characters that an id keeps when it is cut: its whole millisecond */
#define GAP 2      /* columns between two cells */
#define FIELD_WIDTH 13

/* --- lines --- */

int cli_print_text(struct cli *cli, const char *text)
{
    auto_buf buf = BERTH_BUF_INIT(2 * BERTH_JSON_BYTES_MAX);
    if (!text) {
        (void)cli_not_understood(cli);
        return cli_fail(cli);
    }
    buf.secret = true; /* it may be a token */
    berth_buf_puts(&buf, text);
    return cli_print(cli, &buf);
}

static const char *colour_of(const char *status)
{
    static const struct {
        const char *status, *colour;
    } colours[] = {
        {"active", "32"},    {"ok", "32"},        {"success", "32"},  {"succeeded", "32"},
        {"running", "32"},   {"failed", "31"},    {"fail", "31"},     {"expired", "31"},
        {"timed_out", "31"}, {"failure", "31"},   {"unknown", "31"},  {"acquiring", "33"},
        {"warn", "33"},      {"releasing", "33"}, {"retained", "33"}, {"pending", "33"},
        {"disabled", "33"},  {"archived", "2"},   {"released", "2"}};
    for (size_t i = 0; i < sizeof colours / sizeof colours[0]; i++)
        if (strcmp(colours[i].status, status) == 0)
            return colours[i].colour;
    return NULL;
}

void cli_field(struct cli *cli, struct berth_buf *buf, const char *name, const char *value)
{
    if (value)
        berth_buf_printf(buf, "%s%-*s%s", buf->len ? "\n" : "", FIELD_WIDTH, name,
                         cli_clean(cli, value));
}

static void put_status(struct cli *cli, struct berth_buf *buf, const char *name, const char *value)
{
    const char *colour = value && cli_colours(stdout) ? colour_of(value) : NULL;
    if (!colour)
        cli_field(cli, buf, name, value);
    else
        berth_buf_printf(buf, "%s%-*s\033[%sm%s\033[0m", buf->len ? "\n" : "", FIELD_WIDTH, name,
                         colour, value);
}

/* Returns a value as text, objects as JSON; NULL for null. */
static const char *as_text(struct cli *cli, const struct berth_json *value)
{
    switch (berth_json_type(value)) {
    case BERTH_JSON_NULL:
        return NULL;
    case BERTH_JSON_STRING:
        return berth_json_str(value);
    default:
        return berth_json_canonical_in(&cli->arena, value);
    }
}

static const char *cell_text(struct cli *cli, const struct cli_cell *cell,
                             const struct berth_json *object)
{
    const char *text;
    if (cell->text)
        text = cell->text(cli, object);
    else if (cell->kind == CLI_WHEN)
        text = cli_text(object, cell->key) ? cli_when(cli, cli_time(object, cell->key)) : NULL;
    else
        text = as_text(cli, berth_json_get(object, cell->key));
    return text ? text : cell->otherwise;
}

void cli_put_lines(struct cli *cli, struct berth_buf *buf, const struct berth_json *object,
                   const struct cli_cell *lines)
{
    for (; lines->label; lines++)
        if (lines->kind == CLI_STATUS)
            put_status(cli, buf, lines->label, cell_text(cli, lines, object));
        else
            cli_field(cli, buf, lines->label, cell_text(cli, lines, object));
}

int cli_print_one(struct cli *cli, const struct cli_answer *one, const char *id,
                  const struct cli_cell *lines)
{
    auto_buf buf = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    if (cli->json)
        return cli_print_text(cli, one->text);
    if (cli->quiet)
        return cli_print_text(cli, id);
    cli_put_lines(cli, &buf, one->json, lines);
    return cli_print(cli, &buf);
}

/* --- tables --- */

struct table {
    const struct cli_cell *columns;
    int count;
    const char ***rows;
    int row_count;
    int widths[COLUMNS_MAX];
};

static int width_at(const char *p, size_t *step)
{
    int width = wcwidth((wchar_t)berth_utf8_decode(p, step));
    return width < 0 ? 1 : width;
}

/* Returns the width in columns of the terminal. */
static int width_of(const char *text)
{
    int width = 0;
    for (size_t step; *text; text += step)
        width += width_at(text, &step);
    return width;
}

static void table_measure(struct table *t)
{
    for (int c = 0; c < t->count; c++) {
        t->widths[c] = width_of(t->columns[c].label);
        for (int r = 0; r < t->row_count; r++) {
            int width = width_of(t->rows[r][c]);
            if (width > t->widths[c])
                t->widths[c] = width;
        }
    }
}

static int table_width(const struct table *t)
{
    int sum = GAP * (t->count - 1);
    for (int c = 0; c < t->count; c++)
        sum += t->widths[c];
    return sum;
}

/* Returns how many characters tell the ids of a column apart. */
static int telling_length(const struct table *t, int c)
{
    size_t needed = ID_MIN;
    for (int a = 0; a < t->row_count; a++)
        for (int b = 0; b < a; b++) {
            const char *x = t->rows[a][c], *y = t->rows[b][c];
            size_t same = 0;
            while (x[same] && x[same] == y[same])
                same++;
            if (x[same] && same + 1 > needed)
                needed = same + 1;
        }
    return (int)needed;
}

static bool is_cut(enum cli_kind kind)
{
    return kind == CLI_TEXT || kind == CLI_WHEN;
}

/* Cuts ids first, then the widest texts, then drops columns from the right. */
static void table_fit(struct table *t, int width)
{
    for (int c = 0; c < t->count && table_width(t) > width; c++)
        if (t->columns[c].kind == CLI_ID) {
            int needed = telling_length(t, c);
            if (needed < t->widths[c])
                t->widths[c] = needed;
        }
    while (table_width(t) > width) {
        int widest = -1;
        for (int c = 0; c < t->count; c++)
            if (is_cut(t->columns[c].kind) && t->widths[c] > CELL_MIN &&
                (widest < 0 || t->widths[c] > t->widths[widest]))
                widest = c;
        if (widest >= 0)
            t->widths[widest]--;
        else if (t->count > 2)
            t->count--;
        else
            break;
    }
}

/* Writes at most `width` columns. "…" marks a text that was cut; an id is cut without it, since its
 * first characters serve as an id. */
static void put_cell(struct berth_buf *buf, const char *text, int width, enum cli_kind kind,
                     bool last)
{
    int have = width_of(text);
    bool cut = have > width;
    int keep = cut && kind != CLI_ID ? width - 1 : width, shown = 0;
    const char *colour = kind == CLI_STATUS && cli_colours(stdout) ? colour_of(text) : NULL;
    const char *end = text;
    for (size_t step; *end; end += step) {
        int more = width_at(end, &step);
        if (shown + more > keep)
            break;
        shown += more;
    }
    if (colour)
        berth_buf_printf(buf, "\033[%sm", colour);
    berth_buf_append(buf, text, (size_t)(end - text));
    if (cut && kind != CLI_ID) {
        berth_buf_puts(buf, "…");
        shown++;
    }
    if (colour)
        berth_buf_puts(buf, "\033[0m");
    if (!last)
        berth_buf_printf(buf, "%*s", width - shown + GAP, "");
}

static int table_print(struct cli *cli, struct table *t)
{
    auto_buf buf = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    int width = cli_width();
    bool bold = cli_colours(stdout);
    table_measure(t);
    if (width)
        table_fit(t, width);
    berth_buf_puts(&buf, bold ? "\033[1m" : "");
    for (int c = 0; c < t->count; c++)
        put_cell(&buf, t->columns[c].label, t->widths[c], CLI_TEXT, c + 1 == t->count);
    berth_buf_puts(&buf, bold ? "\033[0m" : "");
    for (int r = 0; r < t->row_count; r++) {
        berth_buf_puts(&buf, "\n");
        for (int c = 0; c < t->count; c++)
            put_cell(&buf, t->rows[r][c], t->widths[c], t->columns[c].kind, c + 1 == t->count);
    }
    return cli_print(cli, &buf);
}

static int table_print_first_column(struct cli *cli, const struct table *t)
{
    auto_buf buf = BERTH_BUF_INIT(BERTH_JSON_BYTES_MAX);
    for (int r = 0; r < t->row_count; r++)
        berth_buf_printf(&buf, "%s%s", r ? "\n" : "", t->rows[r][0]);
    return t->row_count ? cli_print(cli, &buf) : CLI_OK;
}

int cli_print_list(struct cli *cli, const struct cli_answer *list, const struct cli_cell *columns)
{
    if (cli->json)
        return cli_print_text(cli, list->text);
    struct table t = {.columns = columns, .row_count = (int)berth_json_count(list->json)};
    while (columns[t.count].label)
        t.count++;
    t.rows = berth_arena_alloc(&cli->arena, sizeof *t.rows * (size_t)(t.row_count + 1));
    for (int r = 0; t.rows && r < t.row_count; r++) {
        const struct berth_json *object = berth_json_at(list->json, (size_t)r);
        t.rows[r] = berth_arena_alloc(&cli->arena, sizeof **t.rows * (size_t)t.count);
        for (int c = 0; t.rows[r] && c < t.count; c++) {
            const char *text = cell_text(cli, &columns[c], object);
            t.rows[r][c] = cli_clean(cli, text ? text : "-");
        }
    }
    if (berth_arena_check(&cli->arena, &cli->err) < 0)
        return cli_fail(cli);
    return cli->quiet ? table_print_first_column(cli, &t) : table_print(cli, &t);
}

void cli_say_cut(const struct cli *cli, const struct cli_answer *list, int limit)
{
    if ((int)berth_json_count(list->json) >= limit && !cli->quiet)
        (void)fprintf(stderr, "berth: there may be more than these %d: --limit goes up to %d\n",
                      limit, BERTH_LIST_ROWS_MAX);
}
