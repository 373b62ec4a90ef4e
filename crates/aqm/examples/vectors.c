/* Runs test vectors through the queues: vectors FILE... The exit status is 0 if all decisions are those of the files.
 *   cc -I crates/aqm/include crates/aqm/examples/vectors.c target/release/libl4slab_aqm.a -lm -lpthread -ldl */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "l4slab_aqm.h"

static int run(const char *name)
{
    char line[512], words[256] = "", error[256];
    uint64_t rate = 0, seed = 0, now, cookie;
    unsigned long number = 0;
    struct l4slab_aqm *queue = NULL;
    struct l4slab_packet p;
    FILE *file = fopen(name, "r");

    if (!file)
        return perror(name), 1;
    while (fgets(line, sizeof line, file)) {
        int right = 1;
        unsigned ecn = 0;

        line[strcspn(line, "\r\n")] = 0;
        number++;
        if (!strncmp(line, "queue ", 6)) {
            snprintf(words, sizeof words, "%.255s", line + 6);
        } else if (sscanf(line, "rate %" SCNu64, &rate) == 1) {
        } else if (sscanf(line, "seed %" SCNu64, &seed) == 1) {
            queue = l4slab_aqm_new(words, rate, seed, 0, error, sizeof error);
            if (!queue)
                return fprintf(stderr, "%s: %s\n", name, error), 1;
        } else if (line[0] == 'E') { /* arrives */
            memset(&p, 0, sizeof p);
            right = sscanf(line, "E %" SCNu64 " %" SCNu64 " %" SCNu32 " %" SCNu32 " %" SCNu16 " %" SCNu8 " %" SCNu8,
                           &now, &p.cookie, &p.length, &p.flow, &p.host, &p.ecn, &p.dscp) == 7;
            l4slab_aqm_enqueue(queue, now, &p);
        } else if (sscanf(line, "D %" SCNu64 " %" SCNu64 " %u", &now, &cookie, &ecn) == 3) { /* leaves */
            right = l4slab_aqm_dequeue(queue, now, &p) && p.cookie == cookie && p.ecn == ecn;
        } else if (sscanf(line, "D %" SCNu64 " -", &now) == 1) { /* nothing leaves yet */
            right = !l4slab_aqm_dequeue(queue, now, &p);
        } else if (sscanf(line, "L %" SCNu64, &cookie) == 1) { /* was dropped by the call before */
            right = l4slab_aqm_dropped(queue, &p) && p.cookie == cookie;
        }
        if (!right)
            return fprintf(stderr, "%s:%lu: the queue decides otherwise than \"%s\"\n", name, number, line), 1;
    }
    fclose(file);
    printf("%s: %lu lines, %" PRIu64 " packets left\n", name, number, l4slab_aqm_backlog(queue));
    l4slab_aqm_free(queue);
    return 0;
}

int main(int count, char **names)
{
    int wrong = 0;

    for (int i = 1; i < count; i++)
        wrong |= run(names[i]);
    return wrong;
}
