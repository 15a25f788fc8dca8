/* SPDX-License-Identifier: Apache-2.0
 * src/crypto/matcher.c - see matcher.h. The nodes of the trie are numbered in the order in which
 * the sorted patterns add them: the first child of a node is the next node. Only the other children
 * need an edge of their own, at most one for each pattern. */
#include "crypto/matcher.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/limits.h"
#include "crypto/locked.h"

#define BYTE_VALUES 256

struct node {
    uint32_t fail;  /* the longest proper suffix of this node's string that is a node, too */
    uint32_t depth; /* the length of its string */
    uint32_t match; /* the length of the longest pattern that its string ends with, or 0 */
    bool next;      /* the next node is a child of this one */
    bool branches;  /* it has further children, which are in `edges` */
};

struct edge {
    uint32_t from, to;
};

struct berth_matcher {
    struct node *nodes;       /* [0] is the root */
    struct berth_locked keys; /* the byte that leads to each node */
    uint32_t count;           /* of nodes */
    struct edge *edges;       /* sorted by `from` and the byte of `to`; without those of the root */
    size_t edge_count;
    uint32_t first[BYTE_VALUES]; /* the children of the root; 0: none */
    int only;                    /* the byte that all patterns begin with; -1: they differ */
};

/* What is needed only while it is made. */
struct building {
    struct berth_matcher *m;
    const struct berth_pattern **sorted;
    size_t count;
    uint32_t *parent, *order; /* of each node; nodes by depth */
    uint32_t *path;           /* the nodes of the pattern that was added last, by depth */
};

static unsigned char key_of(const struct berth_matcher *m, uint32_t node)
{
    return (unsigned char)m->keys.bytes[node];
}

/* Returns the child of a node with edges, or 0. */
static uint32_t edge_find(const struct berth_matcher *m, uint32_t from, unsigned char byte)
{
    size_t low = 0, high = m->edge_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct edge *e = &m->edges[middle];
        if (e->from < from || (e->from == from && key_of(m, e->to) < byte))
            low = middle + 1;
        else
            high = middle;
    }
    return low < m->edge_count && m->edges[low].from == from && key_of(m, m->edges[low].to) == byte
               ? m->edges[low].to
               : 0;
}

/* Returns the child that the byte leads to, or 0. */
static inline uint32_t child_of(const struct berth_matcher *m, uint32_t node, unsigned char byte)
{
    if (!node)
        return m->first[byte];
    if (m->nodes[node].next && key_of(m, node + 1) == byte)
        return node + 1;
    return m->nodes[node].branches ? edge_find(m, node, byte) : 0;
}

/* --- making one --- */

static int by_bytes(const void *a, const void *b)
{
    const struct berth_pattern *x = *(const struct berth_pattern *const *)a;
    const struct berth_pattern *y = *(const struct berth_pattern *const *)b;
    int order = memcmp(x->bytes, y->bytes, x->len < y->len ? x->len : y->len);
    return order ? order : x->len < y->len ? -1 : x->len > y->len;
}

static int by_source(const void *a, const void *b, void *ctx)
{
    const struct edge *x = a, *y = b;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return (int)key_of(ctx, x->to) - (int)key_of(ctx, y->to);
}

static void node_add(struct building *g, uint32_t parent, char byte)
{
    struct berth_matcher *m = g->m;
    uint32_t node = m->count++;
    m->keys.bytes[node] = byte;
    m->nodes[node].depth = m->nodes[parent].depth + 1;
    g->parent[node] = parent;
    if (!parent) {
        m->first[(unsigned char)byte] = node;
    } else if (parent == node - 1) {
        m->nodes[parent].next = true;
    } else {
        m->nodes[parent].branches = true;
        m->edges[m->edge_count++] = (struct edge){parent, node};
    }
}

/* Adds the nodes of a pattern behind those that it shares with the one before it. */
static void pattern_add(struct building *g, const struct berth_pattern *p,
                        const struct berth_pattern *before)
{
    size_t same = 0;
    while (before && same < before->len && same < p->len && before->bytes[same] == p->bytes[same])
        same++;
    for (size_t i = same; i < p->len; i++) {
        node_add(g, i ? g->path[i - 1] : 0, p->bytes[i]);
        g->path[i] = g->m->count - 1;
    }
    g->m->nodes[g->path[p->len - 1]].match = (uint32_t)p->len;
}

/* Writes the nodes to g->order so that a node comes after all that are less deep. `starts` has room
 * for each depth. */
static void order_by_depth(struct building *g, uint32_t *starts, size_t longest)
{
    const struct berth_matcher *m = g->m;
    memset(starts, 0, (longest + 2) * sizeof *starts);
    for (uint32_t i = 0; i < m->count; i++)
        starts[m->nodes[i].depth + 1]++;
    for (size_t depth = 1; depth <= longest + 1; depth++)
        starts[depth] += starts[depth - 1];
    for (uint32_t i = 0; i < m->count; i++)
        g->order[starts[m->nodes[i].depth]++] = i;
}

static void set_fails(struct building *g)
{
    struct berth_matcher *m = g->m;
    for (uint32_t i = 1; i < m->count; i++) {
        uint32_t node = g->order[i], parent = g->parent[node], to = 0;
        for (uint32_t f = parent; f && !to;) {
            f = m->nodes[f].fail;
            to = child_of(m, f, key_of(m, node));
        }
        m->nodes[node].fail = to;
        if (!m->nodes[node].match)
            m->nodes[node].match = m->nodes[to].match;
    }
}

static int matcher_fill(struct building *g, size_t bytes, size_t longest, struct berth_error *err)
{
    struct berth_matcher *m = g->m;
    int rc = berth_locked_new(bytes + 1, &m->keys, err);
    if (rc < 0)
        return rc;
    auto_free uint32_t *parent = calloc(bytes + 1, sizeof *parent);
    auto_free uint32_t *order = calloc(bytes + 1, sizeof *order);
    auto_free uint32_t *path = calloc(longest + 2, sizeof *path);
    m->nodes = calloc(bytes + 1, sizeof *m->nodes);
    m->edges = calloc(g->count, sizeof *m->edges);
    if (!parent || !order || !path || !m->nodes || !m->edges)
        return berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: patterns.");
    g->parent = parent;
    g->order = order;
    g->path = path;
    m->count = 1;
    qsort(g->sorted, g->count, sizeof *g->sorted, by_bytes);
    for (size_t i = 0; i < g->count; i++)
        pattern_add(g, g->sorted[i], i ? g->sorted[i - 1] : NULL);
    if (m->edge_count)
        qsort_r(m->edges, m->edge_count, sizeof *m->edges, by_source, m);
    order_by_depth(g, path, longest);
    set_fails(g);
    char begins = g->sorted[0]->bytes[0];
    m->only = begins == g->sorted[g->count - 1]->bytes[0] ? (unsigned char)begins : -1;
    return BERTH_OK;
}

int berth_matcher_new(const struct berth_pattern *patterns, size_t count,
                      struct berth_matcher **out, struct berth_error *err)
{
    auto_free const struct berth_pattern **sorted = calloc(count + 1, sizeof *sorted);
    struct berth_matcher *m = calloc(1, sizeof *m);
    struct building g = {.m = m, .sorted = sorted};
    size_t bytes = 0, longest = 0;
    int rc =
        sorted && m ? BERTH_OK : berth_fail(err, BERTH_E_NO_MEMORY, "Out of memory: patterns.");
    for (size_t i = 0; rc == BERTH_OK && i < count; i++) {
        if (!patterns[i].len)
            continue;
        sorted[g.count++] = &patterns[i];
        bytes += patterns[i].len;
        longest = patterns[i].len > longest ? patterns[i].len : longest;
        if (bytes > BERTH_PATTERNS_BYTES_MAX)
            rc = berth_fail(err, BERTH_E_TOO_LARGE,
                            "The secrets have more than %d bytes together. Use fewer or shorter "
                            "ones.",
                            BERTH_PATTERNS_BYTES_MAX);
    }
    if (rc == BERTH_OK && g.count)
        rc = matcher_fill(&g, bytes, longest, err);
    if (rc < 0)
        berth_matcher_free(m);
    else
        *out = m;
    return rc;
}

void berth_matcher_free(struct berth_matcher *m)
{
    if (!m)
        return;
    if (m->nodes)
        explicit_bzero(m->nodes, m->count * sizeof *m->nodes);
    free(m->nodes);
    free(m->edges);
    berth_locked_clear(&m->keys);
    explicit_bzero(m, sizeof *m);
    free(m);
}

/* --- reading --- */

/* Returns the first byte from which a pattern may begin, or the end. */
static const char *skip_others(const struct berth_matcher *m, const char *at, const char *end)
{
    if (m->only >= 0) {
        const char *found = memchr(at, m->only, (size_t)(end - at));
        return found ? found : end;
    }
    while (at < end && !m->first[(unsigned char)*at])
        at++;
    return at;
}

/* Returns the node for the string read so far and the next byte. */
static inline uint32_t matcher_step(const struct berth_matcher *m, uint32_t node, char byte,
                                    uint64_t *steps)
{
    uint32_t to;
    ++*steps;
    while (!(to = child_of(m, node, (unsigned char)byte)) && node) {
        node = m->nodes[node].fail;
        ++*steps;
    }
    return to;
}

void berth_matcher_read(const struct berth_matcher *m, struct berth_match *at, const char *bytes,
                        size_t len, berth_match_fn *on_match, void *ctx)
{
    if (!m->count)
        return;
    for (const char *p = bytes, *end = bytes + len; p < end; p++) {
        if (!at->node && (p = skip_others(m, p, end)) == end)
            return;
        at->node = matcher_step(m, at->node, *p, &at->steps);
        const struct node *n = &m->nodes[at->node];
        if (n->match)
            on_match(ctx, (size_t)(p + 1 - bytes), n->match);
        while (at->node && !n->next && !n->branches) { /* no pattern goes on from here */
            at->node = n->fail;
            n = &m->nodes[at->node];
            at->steps++;
        }
    }
}

size_t berth_matcher_begun(const struct berth_matcher *m, const struct berth_match *at)
{
    return at->node ? m->nodes[at->node].depth : 0;
}

static void note_match(void *ctx, size_t end, size_t len)
{
    (void)end, (void)len;
    *(bool *)ctx = true;
}

bool berth_matcher_finds(const struct berth_matcher *m, const char *text, size_t len)
{
    bool found = false;
    if (m)
        berth_matcher_read(m, &(struct berth_match){0}, text, len, note_match, &found);
    return found;
}
