/* plugin_threads.c - what test_emulator_figures.py counts: a loop of 100 million instructions, then
 * the same in a thread, and meanwhile two `rep movsb` of 1 MiB.  qemu 7 takes a process that shares
 * memory for one with threads: the thread finds the loop translated.
 */
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

static char from[1 << 20], to[1 << 20];

static void *spin(void *unused) {
    __asm__ volatile("mov $50000000, %%ecx\n1:\tdec %%ecx\n\tjnz 1b" : : : "ecx");
    return unused;
}

int main(void) {
    pthread_t thread;
    mmap(NULL, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    syscall(0x6d6101);
    spin(NULL);
    pthread_create(&thread, NULL, spin, NULL);
    for (int i = 0; i < 2; i++) {
        const char *source = from;
        char *target = to;
        long n = sizeof from;
        __asm__ volatile("rep movsb" : "+S"(source), "+D"(target), "+c"(n) : : "memory");
    }
    pthread_join(thread, NULL);
    syscall(0x6d6102);
    return 0;
}
