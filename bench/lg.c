/* A load generator for JSON and SSE over HTTP/1.1: one process, one epoll loop.
 *
 *   lg -p PORT [-P path] -b BODY_FILE [-H "Name: value"]... -c CONNECTIONS -d SECONDS [-w SECONDS] [-r RATE] [-l MICROSECONDS]
 *
 *   -w  seconds at the start that are not counted
 *   -r  open loop: so many requests per second, and latency counts from the instant for which one was scheduled, so that a stalled
 *       server does not hide its own delays; without it the loop is closed: each connection asks again when it has its answer
 *   -l  microseconds between opening connections
 *
 * Prints one JSON object: times in microseconds; `events` are server-sent ones, ended by a blank line; the time to the first byte
 * of a body is counted when its answer is complete.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define TAIL 5e6         /* microseconds that an open loop waits for its last answers */
#define GIVE_UP 20000    /* errors */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

/* ------------------------------------------------------------------------------------------------ histograms, exact to 1 % */
#define STEPS 128 /* in each power of two */
#define CELLS (40 * STEPS)

typedef struct {
    uint64_t cells[CELLS], count;
    double sum, max;
} Histogram;

static void note(Histogram *h, double value) {
    uint64_t v = value < 0 ? 0 : (uint64_t)value;
    int cell = (int)v;
    if (v >= STEPS) {
        int power = 63 - __builtin_clzll(v);
        cell = (power - 6) * STEPS + (int)((v >> (power - 7)) - STEPS);
    }
    h->cells[cell < CELLS ? cell : CELLS - 1]++;
    h->count++;
    h->sum += value;
    if (value > h->max) h->max = value;
}

static double quantile(Histogram *h, double q) {
    uint64_t seen = 0, wanted = (uint64_t)(q * h->count);
    for (int i = 0; i < CELLS; i++) {
        seen += h->cells[i];
        if (seen > wanted) return i < STEPS ? i : (STEPS + i % STEPS + 0.5) * (double)(1ULL << (i / STEPS - 1));
    }
    return h->max;
}

/* ------------------------------------------------------------------------------------------------ connections */
typedef struct {
    int fd, busy, connecting;
    double asked, first_byte, last_event;
    size_t written;
    char head[16384];
    size_t head_size;
    int in_body, status, chunked, closes;
    long left; /* of the body, or of a chunk; -1: until the connection ends */
    enum { SIZE, DATA, DATA_END, LAST } part;
    char last;
} Conn;

static Histogram latency, first_byte, gap;
static int loop, port, connections = 1, idle_count, *idle, first_bad;
static Conn *conns;
static char *request, first_bad_body[512];
static size_t request_size;
static struct sockaddr_in address;
static double start, count_from, stop_at, rate;
static long done, errors, bad, events, bytes, scheduled, issued;

static int counts(double t) { return t >= count_from && t <= stop_at; }

static void connect_anew(Conn *c) {
    int one = 1;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    c->connecting = 1;
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(c->fd, (void *)&address, sizeof address) < 0 && errno != EINPROGRESS) {
        close(c->fd);
        c->fd = -1;
        return;
    }
    struct epoll_event e = {.events = EPOLLIN | EPOLLOUT, .data.ptr = c};
    epoll_ctl(loop, EPOLL_CTL_ADD, c->fd, &e);
}

static void watch(Conn *c, int writing) {
    struct epoll_event e = {.events = EPOLLIN | (writing ? EPOLLOUT : 0), .data.ptr = c};
    epoll_ctl(loop, EPOLL_CTL_MOD, c->fd, &e);
}

static int write_request(Conn *c) {
    while (c->written < request_size) {
        ssize_t sent = send(c->fd, request + c->written, request_size - c->written, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN) return -1;
        if (sent < 0) return watch(c, 1), 0;
        c->written += sent;
    }
    return 0;
}

static void finish(Conn *c, int fine);

static void ask(Conn *c, double when) {
    c->busy = 1;
    c->asked = when;
    c->first_byte = c->last_event = 0;
    c->written = c->head_size = 0;
    c->in_body = c->status = c->chunked = c->closes = c->part = c->last = 0;
    c->left = -1;
    if (c->fd < 0) connect_anew(c);
    if (!c->connecting && write_request(c) < 0) finish(c, 0);
}

static void ask_again(Conn *c) {
    double t = now();
    c->busy = 0;
    if (t >= stop_at) return;
    if (rate <= 0) {
        ask(c, t);
    } else if (issued < scheduled) {
        ask(c, start + issued++ * 1e6 / rate);
    } else {
        idle[idle_count++] = c - conns;
    }
}

static void finish(Conn *c, int fine) {
    double t = now();
    if (!fine) {
        errors += t >= count_from && t <= stop_at + TAIL;
        if (errors > GIVE_UP) stop_at = 0;
    } else if (t >= count_from && (t <= stop_at || rate > 0)) {
        if (c->status < 200 || c->status > 299) {
            bad++;
            if (!first_bad) first_bad = c->status;
        }
        done++;
        note(&latency, t - c->asked);
        if (c->first_byte) note(&first_byte, c->first_byte - c->asked);
    }
    if (!fine || c->closes) {
        if (c->fd >= 0) close(c->fd);
        c->fd = -1;
    }
    ask_again(c);
}

/* ------------------------------------------------------------------------------------------------ reading an answer */
static void body_part(Conn *c, const char *data, size_t size, double t) {
    long seen = 0;
    if (!c->first_byte && size) c->first_byte = t;
    if (!first_bad_body[0] && (c->status < 200 || c->status > 299))
        snprintf(first_bad_body, sizeof first_bad_body, "%.*s", (int)(size < 500 ? size : 500), data);
    for (size_t i = 0; i < size; i++) {
        if (data[i] == '\r') continue;
        int blank = data[i] == '\n' && c->last == '\n';
        seen += blank;
        c->last = blank ? 0 : data[i];
    }
    if (!seen) return;
    if (counts(t)) {
        events += seen;
        if (c->last_event) note(&gap, t - c->last_event);
    }
    c->last_event = t;
}

/* Takes bytes of the head; 1 when it is whole, -1 when it is too large. */
static int read_head(Conn *c, const char **data, size_t *size) {
    size_t room = sizeof c->head - 1 - c->head_size, taken = *size < room ? *size : room, before = c->head_size;
    if (!taken) return -1;
    memcpy(c->head + before, *data, taken);
    c->head[c->head_size += taken] = 0;
    char *end = strstr(c->head + (before > 3 ? before - 3 : 0), "\r\n\r\n");
    if (end) taken = end + 4 - c->head - before;
    *data += taken;
    *size -= taken;
    if (!end) return 0;
    *end = 0;
    c->status = atoi(c->head + 9);
    if (c->status == 100) return c->head_size = 0;
    char *length = strcasestr(c->head, "\r\ncontent-length:");
    c->chunked = strcasestr(c->head, "\r\ntransfer-encoding: chunked") != 0;
    c->left = c->chunked ? 0 : length ? atol(length + 17) : -1;
    c->closes = strcasestr(c->head, "\r\nconnection: close") != 0 || (!c->chunked && c->left < 0);
    return c->in_body = 1;
}

static int hex(char x) { return x >= '0' && x <= '9' ? x - '0' : (x | 32) >= 'a' && (x | 32) <= 'f' ? (x | 32) - 'a' + 10 : -1; }

/* 1: the answer is complete, -1: it is broken. */
static int read_answer(Conn *c, const char *data, size_t size) {
    double t = now();
    if (counts(t)) bytes += size;
    while (!c->in_body) {
        if (!size) return 0;
        if (read_head(c, &data, &size) < 0) return -1;
    }
    if (!c->chunked) {
        if (c->left >= 0 && (long)size > c->left) size = c->left;
        body_part(c, data, size, t);
        if (c->left < 0) return 0;
        return (c->left -= size) == 0;
    }
    while (size) {
        if (c->part == DATA) {
            size_t taken = (long)size < c->left ? size : (size_t)c->left;
            body_part(c, data, taken, t);
            data += taken;
            size -= taken;
            if (!(c->left -= taken)) c->part = DATA_END;
            continue;
        }
        char x = *data++;
        size--;
        if (x == '\n') {
            if (c->part == LAST) return 1;
            c->part = c->part == DATA_END ? SIZE : c->left ? DATA : LAST;
        } else if (c->part == SIZE && x != '\r') {
            if (hex(x) < 0) return -1;
            c->left = c->left * 16 + hex(x);
        }
    }
    return 0;
}

/* ------------------------------------------------------------------------------------------------ the loop */
static void on_ready(Conn *c, uint32_t what) {
    static char buffer[1 << 18];
    if (c->fd < 0) return;
    if (what & EPOLLOUT) {
        int error = 0;
        socklen_t size = sizeof error;
        if (c->connecting) getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size);
        c->connecting = 0;
        if (!error) watch(c, 0);
        if (error || (c->busy && write_request(c) < 0)) {
            finish(c, 0);
            return;
        }
    }
    if (!(what & (EPOLLIN | EPOLLHUP | EPOLLERR))) return;
    ssize_t got = recv(c->fd, buffer, sizeof buffer, 0);
    if (got > 0 && c->busy) {
        int whole = read_answer(c, buffer, got);
        if (whole) finish(c, whole > 0);
    } else if (got == 0 || (got < 0 && errno != EAGAIN)) {
        if (c->busy) {
            int fine = got == 0 && c->in_body && !c->chunked && c->left < 0;
            c->closes = 1;
            finish(c, fine);
        } else {
            close(c->fd);
            c->fd = -1;
        }
    }
}

static void on_tick(int timer) {
    uint64_t ticks;
    if (read(timer, &ticks, sizeof ticks) != sizeof ticks) return;
    scheduled += ticks;
    while (idle_count && issued < scheduled && now() < stop_at) ask(&conns[idle[--idle_count]], start + issued++ * 1e6 / rate);
}

static struct timespec timespec(double us) {
    long long ns = us * 1e3;
    return (struct timespec){ns / 1000000000, ns % 1000000000};
}

static int busy(void) {
    int n = 0;
    for (int i = 0; i < connections; i++) n += conns[i].busy;
    return n;
}

static void run(double ramp) {
    int opened = 0, timer = -1;
    double next_open = start;
    struct epoll_event ready[1024], e = {.events = EPOLLIN, .data.ptr = 0};
    if (rate > 0) {
        for (; opened < connections; opened++) {
            connect_anew(&conns[opened]);
            idle[idle_count++] = opened;
        }
        timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
        epoll_ctl(loop, EPOLL_CTL_ADD, timer, &e);
        struct itimerspec ticking = {.it_value = timespec(start += 50000), .it_interval = timespec(1e6 / rate)};
        timerfd_settime(timer, TFD_TIMER_ABSTIME, &ticking, 0);
    }
    for (double t; (t = now()) < stop_at || (rate > 0 && t < stop_at + TAIL && busy());) {
        while (opened < connections && t >= next_open) {
            ask(&conns[opened++], t);
            next_open += ramp;
            if (ramp && next_open > t) break;
        }
        int n = epoll_wait(loop, ready, 1024, opened < connections ? 1 : stop_at - t < 1e5 && stop_at > t ? (int)((stop_at - t) / 1e3) + 1 : 100);
        for (int i = 0; i < n; i++) {
            if (ready[i].data.ptr) on_ready(ready[i].data.ptr, ready[i].events);
            else on_tick(timer);
        }
    }
}

static void read_body(const char *path, const char *where, const char *headers) {
    FILE *file = fopen(path, "rb");
    if (!file) perror(path), exit(2);
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    request = malloc(size + strlen(headers) + 1024);
    request_size = sprintf(request,
                           "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUser-Agent: lg\r\nAccept: */*\r\n"
                           "Content-Type: application/json\r\n%sContent-Length: %ld\r\n\r\n",
                           where, port, headers, size);
    request_size += fread(request + request_size, 1, size, file);
    fclose(file);
}

int main(int argc, char **argv) {
    char *path = "/v1/chat/completions", *body = 0, headers[8192] = "";
    double seconds = 5, warm = 0, ramp = 0;
    for (int option; (option = getopt(argc, argv, "p:P:b:H:c:d:r:w:l:")) > 0;) {
        switch (option) {
        case 'p': port = atoi(optarg); break;
        case 'P': path = optarg; break;
        case 'b': body = optarg; break;
        case 'H': strcat(strcat(headers, optarg), "\r\n"); break;
        case 'c': connections = atoi(optarg); break;
        case 'd': seconds = atof(optarg); break;
        case 'r': rate = atof(optarg); break;
        case 'w': warm = atof(optarg); break;
        case 'l': ramp = atof(optarg); break;
        default: return 2;
        }
    }
    if (!body) return fprintf(stderr, "lg: -b BODY_FILE is missing\n"), 2;
    read_body(body, path, headers);
    signal(SIGPIPE, SIG_IGN);
    address = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    loop = epoll_create1(0);
    conns = calloc(connections, sizeof *conns);
    idle = calloc(connections, sizeof *idle);
    for (int i = 0; i < connections; i++) conns[i].fd = -1;
    start = now();
    count_from = start + warm * 1e6;
    stop_at = count_from + seconds * 1e6;
    run(ramp);

    double counted = ((now() < stop_at ? now() : stop_at) - count_from) / 1e6;
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    double cpu = used.ru_utime.tv_sec + used.ru_utime.tv_usec / 1e6 + used.ru_stime.tv_sec + used.ru_stime.tv_usec / 1e6;
    printf("{\"done\":%ld,\"errors\":%ld,\"bad\":%ld,\"first_bad\":%d,\"seconds\":%.3f,\"rps\":%.1f,\"p50\":%.0f,\"p90\":%.0f,\"p99\":%.0f,"
           "\"max\":%.0f,\"first_byte_p50\":%.0f,\"first_byte_p99\":%.0f,\"events\":%ld,\"eps\":%.0f,\"gap_p99\":%.0f,\"mbps\":%.1f,"
           "\"in_flight\":%d,\"late\":%ld,\"cpu\":%.2f}\n",
           done, errors, bad, first_bad, counted, done / counted, quantile(&latency, .5), quantile(&latency, .9), quantile(&latency, .99),
           latency.max, quantile(&first_byte, .5), quantile(&first_byte, .99), events, events / counted, quantile(&gap, .99),
           bytes / counted / 1e6, busy(), rate > 0 ? scheduled - issued : 0, cpu);
    if (first_bad_body[0]) fprintf(stderr, "%s\n", first_bad_body);
    return 0;
}
