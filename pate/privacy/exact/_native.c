/* Exact divergences of noisy-max votes: the inner loops of pair_law.py and orders.py, one histogram at a time.
 *
 * The mathematics, and the reasons for every formula, are in those two modules; the numpy engine there is the
 * specification and this file must agree with it to 1e-12 (tested). A plain shared library that knows nothing of Python:
 * the functions are called through ctypes, without the interpreter lock.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LANES 8
/* Sums over nodes are taken in runs of this length, which keeps their rounding to a few ulp. */
#define RUN 16
/* Sums beyond this, and NaN, send a histogram to the log-space engine before a comparison can lose them. */
#define LARGEST 1e300
typedef double vec __attribute__((vector_size(8 * LANES)));

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__)
#define FOR_EACH_CPU __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FOR_EACH_CPU
#endif
#define INLINE static inline __attribute__((always_inline))

enum { OK = 0, INEXACT = 1, EXTREME = 2 };
enum { BASE_ONE = 0, BASE_QUARTER = 1, BASE_HALF = 2, BASE_THREE_QUARTERS = 3, BASE_TWO = 4, BASE_OTHER = 5, SUM = 6 };

typedef struct {
    int64_t n, n_groups_max, n_nodes_max;
    const int64_t *offsets, *values, *sizes;
    /* integrals: a lattice (table != NULL) or explicit nodes */
    const double *table;
    const int64_t *start, *length;
    int64_t stride, per_count, low;
    double step;
    const double *strip; /* the proof of the step (see quadrature.py), or NULL */
    double log_strip, sum_error;
    const int64_t *node_offsets;
    const double *node_x, *node_weight;
    double scale;
    /* orders */
    int64_t n_nodes, n_orders;
    const double *alphas;
    const int64_t *kinds, *left, *right, *output;
    double max_order, ratio_low, max_log_power, min_log_prob, far;
    /* threshold test: factor and addend (top - join_low, change + 1, side, order), or NULL */
    const double *factor, *addend;
    int64_t join_low;
    /* results: K (rows, 2, n_orders), a row per group or per histogram; flags (n) */
    int64_t per_group;
    double *out;
    int64_t *flags;
} task;

typedef struct {
    double *w, *up, *down, *own_up, *own_down; /* (nodes, padded groups) */
    double *tilt;                               /* (nodes) */
    double *same;                               /* (tile, groups, padded groups): E_j[R - 1] of an unchanged class j */
    double *spec_u, *spec_b;                    /* (groups, padded groups) */
    double *prob, *log_prob, *mean_up, *const_up, *const_down, *total; /* per group */
    double *q, *r, *log_q;                      /* (slots, lanes) */
    int64_t *wild;                              /* (slots): needs logarithms */
    int64_t *lane_u, *lane_b, *lane_change, *lane_extra;
    int closed; /* the leader's probability and ratio are complements of the others' */
    vec *g, *x, *acc, *best;
} scratch;

INLINE double power(double base, int64_t n) {
    double result = 1.0;
    for (; n; n >>= 1) {
        if (n & 1) result *= base;
        base *= base;
    }
    return result;
}

INLINE vec vec_sqrt(vec a) {
    for (int l = 0; l < LANES; l++) a[l] = sqrt(a[l]);
    return a;
}

/* (1 + r)^a - 1 - a r */
static double binomial_remainder(double a, double r) {
    if (fabs(r) > 0.1) return expm1(a * log1p(r)) - a * r;
    double term[19], coefficient = 1.0, p = 1.0, total = 0.0;
    for (int k = 1; k < 19; k++) {
        coefficient *= (a - k + 1) / k;
        p *= r;
        term[k] = coefficient * p;
    }
    for (int k = 18; k >= 2; k--) total += term[k];
    return total;
}

INLINE vec base_term(int64_t kind, double alpha, vec r, vec root, vec q) {
    switch (kind) {
        case BASE_TWO: return r * r;
        case BASE_HALF: return root * root * (1.5 + root);
        case BASE_QUARTER: return q * q * (2.5 + q * (5.0 + q * (3.75 + q)));
        case BASE_THREE_QUARTERS: return q * q * (10.5 + q * (28.0 + q * (33.25 + q * (21.0 + q * (7.0 + q)))));
        case BASE_OTHER: {
            vec g;
            for (int l = 0; l < LANES; l++) g[l] = binomial_remainder(alpha, r[l]);
            return g;
        }
        default: return r - r;
    }
}

/* Add weight * g_a(log1p(ratio)) of both directions to the accumulators, for eight neighbours at once. */
INLINE void add_terms(const task *t, scratch *s, vec q, vec r, int use_roots) {
    const int64_t n = t->n_nodes;
    vec *g0 = s->g, *x0 = s->x, *g1 = s->g + n, *x1 = s->x + n;
    const vec q0 = q * (1.0 + r);
    vec r0, root0 = r, root1 = r, fourth0 = r, fourth1 = r;
    if (use_roots) {
        /* With w = sqrt(1 + r): the reverse ratio is -r / w^2 and its root 1 / w. Likewise for fourth roots. */
        const vec w = vec_sqrt(1.0 + r), v = vec_sqrt(w), in_w = 1.0 / w, in_one = 1.0 / (1.0 + w), in_two = 1.0 / (1.0 + v);
        r0 = -r * in_w * in_w;
        root1 = r * in_one;
        root0 = r0 * w * in_one;
        fourth1 = root1 * in_two;
        fourth0 = root0 * v * in_two;
    } else {
        r0 = -r / (1.0 + r);
    }
    for (int64_t i = 0; i < n; i++) {
        const double alpha = t->alphas[i];
        vec a, b;
        if (t->kinds[i] == SUM) {
            const int64_t p = t->left[i], k = t->right[i];
            a = x0[p] * x0[k] + (g0[p] + g0[k]);
            b = x1[p] * x1[k] + (g1[p] + g1[k]);
        } else {
            a = base_term(t->kinds[i], alpha, r0, root0, fourth0);
            b = base_term(t->kinds[i], alpha, r, root1, fourth1);
        }
        g0[i] = a;
        g1[i] = b;
        x0[i] = a + alpha * r0;
        x1[i] = b + alpha * r;
        const int64_t o = t->output[i];
        if (o >= 0) {
            s->acc[o] += q0 * a;
            s->acc[t->n_orders + o] += q * b;
        }
    }
}

/* (1 + r)^a - 1 - a r from l = log1p(r), for a l <= 40 */
static double remainder_of(double a, double l) {
    const double y = a * l;
    if (fabs(y) > 0.5) {
        const double g = expm1(y) - a * expm1(l);
        return g > 0 ? g : 0;
    }
    double parts[21], term = 1.0, total = 0.0;
    for (int k = 1; k <= 20; k++) {
        term *= y / k;
        parts[k] = term * -expm1((1 - k) * log(a));
    }
    for (int k = 20; k >= 2; k--) total += parts[k];
    return total;
}

/* exp(log_weight) g_a(l) where the factors alone may leave the range of a double */
static double wild_term(double a, double log_weight, double l) {
    if (a * l <= 40) return exp(log_weight) * remainder_of(a, l);
    return exp(log_weight + a * l + log1p((a - 1) * exp(-a * l) - a * exp(-(a - 1) * l)));
}

static void add_wild_terms(const task *t, scratch *s, const double *log_q, const double *r) {
    for (int l = 0; l < LANES; l++) {
        if (r[l] == 0) continue;
        const double log_r = log1p(r[l]);
        for (int64_t i = 0; i < t->n_nodes; i++) {
            const int64_t o = t->output[i];
            if (o < 0) continue;
            s->acc[o][l] += wild_term(t->alphas[i], log_q[l] + log_r, -log_r);
            s->acc[t->n_orders + o][l] += wild_term(t->alphas[i], log_q[l], log_r);
        }
    }
}

INLINE void fill_lattice(const task *t, scratch *s, int64_t h, int64_t g, int64_t pad, int64_t n) {
    const int64_t *values = t->values + t->offsets[h], *sizes = t->sizes + t->offsets[h];
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = t->start[h] + i * t->stride - t->low, row = i * pad;
        double all = 1.0;
        for (int64_t j = 0; j < g; j++) {
            const double *e = t->table + 8 * (at - values[j] * t->per_count);
            all *= sizes[j] == 1 ? e[6] : power(e[6], sizes[j]);
            s->up[row + j] = e[2];
            s->down[row + j] = e[3];
            s->own_up[row + j] = e[4];
            s->own_down[row + j] = e[5];
            s->w[row + j] = e[7];
        }
        for (int64_t j = 0; j < g; j++) s->w[row + j] *= all;
    }
    for (int64_t j = 0; j < g; j++) s->log_prob[j] = 0;
}

/* The same with every integrand scaled by its own largest value, for gaps at which it underflows. */
INLINE void fill_lattice_scaled(const task *t, scratch *s, int64_t h, int64_t g, int64_t pad, int64_t n) {
    const int64_t *values = t->values + t->offsets[h], *sizes = t->sizes + t->offsets[h];
    for (int64_t j = 0; j < g; j++) s->log_prob[j] = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = t->start[h] + i * t->stride - t->low, row = i * pad;
        double all = 0.0;
        for (int64_t j = 0; j < g; j++) all += (double)sizes[j] * t->table[8 * (at - values[j] * t->per_count)];
        for (int64_t j = 0; j < g; j++) {
            const double *e = t->table + 8 * (at - values[j] * t->per_count);
            s->up[row + j] = e[2];
            s->down[row + j] = e[3];
            s->own_up[row + j] = e[4];
            s->own_down[row + j] = e[5];
            s->w[row + j] = all + e[1];
            if (s->w[row + j] > s->log_prob[j]) s->log_prob[j] = s->w[row + j];
        }
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < g; j++) s->w[i * pad + j] = exp(s->w[i * pad + j] - s->log_prob[j]);
}

INLINE void fill_nodes(const task *t, scratch *s, int64_t h, int64_t g, int64_t pad, int64_t n) {
    const int64_t *values = t->values + t->offsets[h], *sizes = t->sizes + t->offsets[h];
    const double *x = t->node_x + t->node_offsets[h], *weight = t->node_weight + t->node_offsets[h];
    const double one = 1 / t->scale, rise = expm1(one), fall = expm1(-one);
    for (int64_t i = 0; i < n; i++) {
        const int64_t row = i * pad;
        double all = weight[i];
        for (int64_t j = 0; j < g; j++) {
            const double d = (x[i] - (double)values[j]) / t->scale, half = 0.5 * exp(-fabs(d));
            const double f = d < 0 ? half : 1 - half;
            all *= sizes[j] == 1 ? f : power(f, sizes[j]);
            s->up[row + j] = d < 0 ? rise : -half * fall / f;
            s->down[row + j] = d < 0 ? fall : -half * rise / f;
            s->own_up[row + j] = d < 0 ? rise : fall;
            s->own_down[row + j] = d < 0 ? fall : rise;
            /* Within one vote of the kink the shifted count lies on its other side. */
            if (d < 0 && d + one > 0) {
                s->up[row + j] = -0.5 * (expm1(-(d + one)) + expm1(d)) / f;
                s->own_up[row + j] = expm1(-2 * d - one);
            } else if (d >= 0 && d - one < 0) {
                s->down[row + j] = 0.5 * (expm1(d - one) + expm1(-d)) / f;
                s->own_down[row + j] = expm1(2 * d - one);
            }
            s->w[row + j] = d < 0 ? 1.0 : half / f;
        }
        for (int64_t j = 0; j < g; j++) s->w[row + j] *= all;
    }
    for (int64_t j = 0; j < g; j++) s->log_prob[j] = 0;
}

/* log E_W[f^2] of the outcome with the fewest votes, the largest of all: see quadrature.py. */
INLINE double log_strip(const task *t, scratch *s, int64_t h, int64_t g, int64_t n) {
    const int64_t *values = t->values + t->offsets[h], *sizes = t->sizes + t->offsets[h];
    const double base = s->log_prob[g - 1] - log(t->step);
    double total = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = t->start[h] + i * t->stride - t->low;
        double logs = t->strip[2 * (at - values[g - 1] * t->per_count) + 1] - base;
        for (int64_t j = 0; j < g; j++) logs += (double)sizes[j] * t->strip[2 * (at - values[j] * t->per_count)];
        total += exp(logs);
    }
    return log(total);
}

/* Normalise the integrands; probabilities, the proof of their error, and the sums that do not depend on the pair. */
INLINE int normalise(const task *t, scratch *s, int64_t h, int64_t g, int64_t pad, int64_t n) {
    const int64_t *sizes = t->sizes + t->offsets[h];
    double *total = s->total, sum = 0, others = 0;
    memset(total, 0, sizeof(double) * pad);
    for (int64_t start = 0; start < n; start += RUN) {
        const int64_t stop = start + RUN < n ? start + RUN : n;
        for (int64_t j = 0; j < g; j++) {
            double part = 0;
            for (int64_t i = start; i < stop; i++) part += s->w[i * pad + j];
            total[j] += part;
        }
    }
    for (int64_t j = g - 1; j >= 0; j--) {
        if (!(total[j] > 1e-280)) return EXTREME;
        s->log_prob[j] += log(t->table ? total[j] * t->step : total[j]);
        s->prob[j] = exp(s->log_prob[j]);
        others = sum;
        sum += s->prob[j] * (double)sizes[j];
        total[j] = 1 / total[j];
    }
    if (!(fabs(sum - 1) < t->sum_error)) return INEXACT;
    if (t->strip && !(log_strip(t, s, h, g, n) <= t->log_strip)) return INEXACT;
    memset(s->mean_up, 0, sizeof(double) * g * pad);
    memset(s->const_up, 0, sizeof(double) * pad);
    memset(s->const_down, 0, sizeof(double) * pad);
    for (int64_t i = 0; i < n; i++) {
        double *w = s->w + i * pad, *up = s->own_up + i * pad, *down = s->own_down + i * pad;
        for (int64_t j = 0; j < g; j++) {
            w[j] *= total[j];
            up[j] *= w[j];
            down[j] *= w[j];
            s->const_up[j] += up[j];
            s->const_down[j] += down[j];
            up[j] += w[j];
            down[j] += w[j];
        }
    }
    for (int64_t start = 0; start < n; start += RUN) {
        const int64_t stop = start + RUN < n ? start + RUN : n;
        for (int64_t j = 0; j < g; j++)
            for (int64_t block = 0; block < pad; block += LANES) {
                vec part = {0};
                for (int64_t i = start; i < stop; i++) part += s->w[i * pad + j] * *(const vec *)(s->up + i * pad + block);
                *(vec *)(s->mean_up + j * pad + block) += part;
            }
    }
    s->closed = sizes[0] == 1 && others < 0.5;
    if (s->closed) {
        s->prob[0] = 1 - others;
        s->log_prob[0] = log1p(-others);
    }
    return OK;
}

/* Ratios for losing groups u in [from, to): unchanged classes, the loser, the winner. */
INLINE void tile_ratios(scratch *s, int64_t g, int64_t pad, int64_t n, int64_t from, int64_t to) {
    for (int64_t u = from; u < to; u++) {
        double *same = s->same + (u - from) * g * pad;
        double *loser = s->spec_u + (u - from) * pad, *winner = s->spec_b + (u - from) * pad;
        for (int64_t i = 0; i < n; i++) s->tilt[i] = 1 + s->up[i * pad + u];
        for (int64_t block = 0; block < pad; block += LANES) {
            /* Four classes at a time: independent sums hide the latency of the additions. Padding rows are unused. */
            for (int64_t j = 0; j < g; j += 4) {
                vec a0 = {0}, a1 = {0}, a2 = {0}, a3 = {0};
                for (int64_t start = 0; start < n; start += RUN) {
                    vec b0 = {0}, b1 = {0}, b2 = {0}, b3 = {0};
                    const int64_t stop = start + RUN < n ? start + RUN : n;
                    for (int64_t i = start; i < stop; i++) {
                        const vec d = s->tilt[i] * *(const vec *)(s->down + i * pad + block);
                        const double *w = s->w + i * pad + j;
                        b0 += w[0] * d;
                        b1 += w[1] * d;
                        b2 += w[2] * d;
                        b3 += w[3] * d;
                    }
                    a0 += b0;
                    a1 += b1;
                    a2 += b2;
                    a3 += b3;
                }
                *(vec *)(same + j * pad + block) = a0 + s->mean_up[j * pad + u];
                if (j + 1 < g) *(vec *)(same + (j + 1) * pad + block) = a1 + s->mean_up[(j + 1) * pad + u];
                if (j + 2 < g) *(vec *)(same + (j + 2) * pad + block) = a2 + s->mean_up[(j + 2) * pad + u];
                if (j + 3 < g) *(vec *)(same + (j + 3) * pad + block) = a3 + s->mean_up[(j + 3) * pad + u];
            }
            vec a = {0}, b = {0};
            for (int64_t start = 0; start < n; start += RUN) {
                vec c = {0}, d = {0};
                const int64_t stop = start + RUN < n ? start + RUN : n;
                for (int64_t i = start; i < stop; i++) {
                    c += s->own_up[i * pad + u] * *(const vec *)(s->down + i * pad + block);
                    d += s->up[i * pad + u] * *(const vec *)(s->own_down + i * pad + block);
                }
                a += c;
                b += d;
            }
            *(vec *)(loser + block) = a + s->const_up[u];
            *(vec *)(winner + block) = b + *(const vec *)(s->const_down + block);
        }
    }
}

/* List the neighbours of a tile, those with equal change of the largest count and equally many slots together. */
INLINE int64_t list_lanes(scratch *s, const int64_t *values, const int64_t *sizes, int64_t g, int64_t from, int64_t to) {
    int64_t n = 0;
    for (int64_t key = 0; key < 9; key++)
        for (int64_t u = from; u < to; u++) {
            if (values[u] < 1) continue;
            for (int64_t b = 0; b < g; b++) {
                if (b == u && sizes[u] < 2) continue;
                const int64_t extra = (sizes[u] > 1) + (sizes[b] > 1);
                const int64_t change = b == 0 ? 1 : (u == 0 && sizes[0] == 1 && values[b] < values[0] - 1) ? -1 : 0;
                if (key != 3 * (change + 1) + extra) continue;
                s->lane_u[n] = u;
                s->lane_b[n] = b;
                s->lane_change[n] = change;
                s->lane_extra[n++] = extra;
            }
        }
    return n;
}

/* Lay out weights and ratios of the slots of up to eight neighbours; return the number of slots, or -1. */
INLINE int64_t fill_slots(const task *t, scratch *s, int64_t h, int64_t g, int64_t pad, int64_t from, int64_t first, int64_t n) {
    const int64_t *sizes = t->sizes + t->offsets[h];
    int64_t extra = 0;
    for (int64_t l = 0; l < n; l++)
        if (s->lane_extra[first + l] > extra) extra = s->lane_extra[first + l];
    memset(s->q, 0, sizeof(double) * LANES * (g + extra));
    memset(s->r, 0, sizeof(double) * LANES * (g + extra));
    memset(s->log_q, 0, sizeof(double) * LANES * (g + extra));
    for (int64_t l = 0; l < n; l++) {
        const int64_t u = s->lane_u[first + l], b = s->lane_b[first + l];
        const double *same = s->same + (u - from) * g * pad;
        const double loser = s->spec_u[(u - from) * pad + b], winner = s->spec_b[(u - from) * pad + b];
        int64_t slot = g;
        for (int64_t j = 0; j < g; j++) {
            const int64_t left = sizes[j] - (j == u) - (j == b);
            if (left > 0) {
                s->q[j * LANES + l] = (double)left * s->prob[j];
                s->r[j * LANES + l] = same[j * pad + b];
                s->log_q[j * LANES + l] = s->log_prob[j] + (left > 1 ? log((double)left) : 0.0);
            }
        }
        /* The class that lost or won its vote takes the place of its group when it was alone there. */
        const int64_t at_u = sizes[u] == 1 ? u : slot++;
        s->q[at_u * LANES + l] = s->prob[u];
        s->r[at_u * LANES + l] = loser;
        s->log_q[at_u * LANES + l] = s->log_prob[u];
        const int64_t at_b = sizes[b] == 1 ? b : slot++;
        s->q[at_b * LANES + l] = s->prob[b];
        s->r[at_b * LANES + l] = winner;
        s->log_q[at_b * LANES + l] = s->log_prob[b];
        if (s->closed) {
            double moved = 0;
            for (int64_t j = slot - 1; j > 0; j--) moved += s->q[j * LANES + l] * s->r[j * LANES + l];
            s->r[l] = -moved / s->prob[0];
        }
    }
    const double low = expm1(-t->max_log_power / t->max_order), high = expm1(t->max_log_power / t->max_order);
    for (int64_t j = 0; j < g + extra; j++) {
        int wild = 0;
        for (int64_t k = j * LANES; k < (j + 1) * LANES; k++)
            wild |= !(s->r[k] > low && s->r[k] < high && s->log_q[k] > t->min_log_prob);
        s->wild[j] = wild;
        if (!wild) continue;
        s->wild[j] = 0;
        for (int64_t k = j * LANES; k < (j + 1) * LANES; k++) {
            /* A ratio this close to -1 does not tell how close; a NaN tells nothing. */
            if (!(s->r[k] > t->ratio_low)) return -1;
            /* Terms below exp(-740) are below the smallest double. */
            if (s->log_q[k] + t->max_order * fabs(log1p(s->r[k])) < -740) {
                s->q[k] = s->r[k] = 0;
                continue;
            }
            if (!(s->r[k] > low && s->r[k] < high && s->log_q[k] > t->min_log_prob)) s->wild[j] = 1;
        }
    }
    return g + extra;
}

INLINE void join_threshold(const task *t, scratch *s, int64_t top, int64_t first, int64_t n) {
    const int64_t width = 2 * t->n_orders;
    const double *factor = t->factor + (top - t->join_low) * 3 * width, *addend = t->addend + (top - t->join_low) * 3 * width;
    const int64_t change = s->lane_change[first];
    int uniform = 1;
    for (int64_t l = 1; l < n; l++) uniform &= s->lane_change[first + l] == change;
    if (uniform) {
        factor += (change + 1) * width;
        addend += (change + 1) * width;
        for (int64_t k = 0; k < width; k++) s->acc[k] = factor[k] * s->acc[k] + addend[k];
        return;
    }
    for (int64_t l = 0; l < n; l++) {
        const int64_t at = (s->lane_change[first + l] + 1) * width;
        for (int64_t k = 0; k < width; k++) s->acc[k][l] = factor[at + k] * s->acc[k][l] + addend[at + k];
    }
}

FOR_EACH_CPU
static int one_histogram(const task *t, scratch *s, int64_t h) {
    const int64_t g = t->offsets[h + 1] - t->offsets[h], pad = (g + LANES - 1) / LANES * LANES;
    const int64_t *values = t->values + t->offsets[h], *sizes = t->sizes + t->offsets[h];
    const int64_t n = t->table ? t->length[h] : t->node_offsets[h + 1] - t->node_offsets[h];
    const int64_t width = 2 * t->n_orders, tile = g < 24 ? g : 1;
    double *out = t->out + (t->per_group ? t->offsets[h] : h) * width;
    int use_roots = 0;
    for (int64_t i = 0; i < t->n_nodes; i++) use_roots |= t->kinds[i] >= BASE_QUARTER && t->kinds[i] <= BASE_THREE_QUARTERS;
    memset(out, 0, sizeof(double) * width * (t->per_group ? g : 1));
    for (int64_t k = 0; k < width; k++) s->best[k] = (vec){0};
    if (t->table && (double)(values[0] - values[g - 1]) > t->far)
        fill_lattice_scaled(t, s, h, g, pad, n);
    else if (t->table)
        fill_lattice(t, s, h, g, pad, n);
    else
        fill_nodes(t, s, h, g, pad, n);
    /* Padding lanes hold whatever an earlier histogram left: they must stay finite. */
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = g; j < pad; j++) s->up[i * pad + j] = s->down[i * pad + j] = s->own_down[i * pad + j] = 0;
    const int flag = normalise(t, s, h, g, pad, n);
    if (flag) return flag;
    for (int64_t from = 0; from < g; from += tile) {
        const int64_t to = from + tile < g ? from + tile : g;
        tile_ratios(s, g, pad, n, from, to);
        const int64_t lanes = list_lanes(s, values, sizes, g, from, to);
        for (int64_t first = 0; first < lanes; first += LANES) {
            const int64_t count = lanes - first < LANES ? lanes - first : LANES;
            const int64_t slots = fill_slots(t, s, h, g, pad, from, first, count);
            if (slots < 0) return EXTREME;
            for (int64_t k = 0; k < width; k++) s->acc[k] = (vec){0};
            for (int64_t j = 0; j < slots; j++)
                if (s->wild[j])
                    add_wild_terms(t, s, s->log_q + j * LANES, s->r + j * LANES);
                else
                    add_terms(t, s, *(const vec *)(s->q + j * LANES), *(const vec *)(s->r + j * LANES), use_roots);
            int bad = 0;
            for (int64_t k = 0; k < width; k++)
                for (int l = 0; l < LANES; l++) bad |= !(s->acc[k][l] < LARGEST);
            if (bad) return EXTREME;
            if (t->factor) {
                join_threshold(t, s, values[0], first, count);
                for (int64_t k = 0; k < width; k++)
                    for (int l = 0; l < LANES; l++) bad |= l < count && !(s->acc[k][l] < LARGEST);
                if (bad) return EXTREME;
            }
            if (t->per_group) {
                for (int64_t l = 0; l < count; l++) {
                    double *row = out + s->lane_u[first + l] * width;
                    for (int64_t k = 0; k < width; k++)
                        if (s->acc[k][l] > row[k]) row[k] = s->acc[k][l];
                }
            } else {
                for (int64_t l = count; l < LANES; l++)
                    for (int64_t k = 0; k < width; k++) s->acc[k][l] = 0;
                for (int64_t k = 0; k < width; k++)
                    for (int l = 0; l < LANES; l++)
                        s->best[k][l] = s->acc[k][l] > s->best[k][l] ? s->acc[k][l] : s->best[k][l];
            }
        }
    }
    if (!t->per_group)
        for (int64_t k = 0; k < width; k++)
            for (int l = 0; l < LANES; l++)
                if (s->best[k][l] > out[k]) out[k] = s->best[k][l];
    return OK;
}

#if defined(_WIN32)
__declspec(dllexport)
#else
__attribute__((visibility("default")))
#endif
int pate_noisy_max(const task *t) {
    const int64_t g = t->n_groups_max, pad = (g + LANES - 1) / LANES * LANES, n = t->n_nodes_max;
    const int64_t tile = g < 24 ? g : 24, lanes = (g < 24 ? g * g : g > 24 * 24 ? g : 24 * 24) + LANES;
    const int64_t sizes[] = {n * pad, n * pad, n * pad, n * pad, n * pad, n, tile * g * pad > g * pad ? tile * g * pad : g * pad,
                             g * pad, g * pad, pad, pad, g * pad, pad, pad, pad, (g + 2) * LANES, (g + 2) * LANES,
                             (g + 2) * LANES, g + 2,
                             lanes, lanes, lanes, lanes,
                             2 * t->n_nodes * LANES, 2 * t->n_nodes * LANES, 2 * t->n_orders * LANES, 2 * t->n_orders * LANES};
    enum { PARTS = sizeof(sizes) / sizeof(sizes[0]) };
    scratch s;
    void **parts[PARTS] = {(void **)&s.w, (void **)&s.up, (void **)&s.down, (void **)&s.own_up, (void **)&s.own_down,
                           (void **)&s.tilt, (void **)&s.same, (void **)&s.spec_u, (void **)&s.spec_b, (void **)&s.prob, (void **)&s.log_prob,
                           (void **)&s.mean_up, (void **)&s.const_up, (void **)&s.const_down, (void **)&s.total,
                           (void **)&s.q, (void **)&s.r, (void **)&s.log_q, (void **)&s.wild, (void **)&s.lane_u, (void **)&s.lane_b, (void **)&s.lane_change,
                           (void **)&s.lane_extra, (void **)&s.g, (void **)&s.x, (void **)&s.acc, (void **)&s.best};
    int64_t total = 0;
    for (int k = 0; k < PARTS; k++) total += (sizes[k] + 7) / 8 * 8;
    char *memory = calloc((size_t)total * 8 + 64, 1);
    if (!memory) return 1;
    char *at = memory + (64 - (uintptr_t)memory % 64) % 64;
    for (int k = 0; k < PARTS; k++) {
        *parts[k] = at;
        at += (sizes[k] + 7) / 8 * 64;
    }
    for (int64_t h = 0; h < t->n; h++) t->flags[h] = one_histogram(t, &s, h);
    free(memory);
    return 0;
}

#if defined(_WIN32)
__declspec(dllexport)
#else
__attribute__((visibility("default")))
#endif
int64_t pate_task_size(void) { return (int64_t)sizeof(task); }
