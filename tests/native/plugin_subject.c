/* plugin_subject.c - what test_emulator_plugin.py counts: exact numbers of instructions.
 *
 * Between the marks: 3 marking instructions; one `rep movsb` of 1 MiB, which is one instruction in
 * hardware, repeated 10 times in a loop of 6 instructions; 4 instructions; and 10 times a loop of 6
 * that begins with such an instruction.
 * Usage: plugin_subject (under qemu with the plugin).
 */
#include <sys/syscall.h>

static char from[1 << 20], to[1 << 20];

int main(void) {
    /* 10 x (mov, mov, mov, rep movsb, dec, jnz), 4 x mov, 10 x (rep movsb, 3 x mov, dec, jnz) */
    __asm__ volatile("mov $0x6d6101, %%eax\n\tsyscall\n\t"
                     "mov $10, %%ebx\n"
                     "1:\tmov %0, %%rsi\n\tmov %1, %%rdi\n\tmov $0x100000, %%ecx\n\t"
                     "rep movsb\n\tdec %%ebx\n\tjnz 1b\n\t"
                     "mov $10, %%ebx\n\t"
                     "mov %0, %%rsi\n\tmov %1, %%rdi\n\tmov $0x1000, %%ecx\n"
                     "2:\trep movsb\n\t"
                     "mov %0, %%rsi\n\tmov %1, %%rdi\n\tmov $0x1000, %%ecx\n\t"
                     "dec %%ebx\n\tjnz 2b\n\t"
                     "mov $0x6d6102, %%eax\n\tsyscall"
                     :
                     : "r"(from), "r"(to)
                     : "rax", "rbx", "rcx", "rsi", "rdi", "r11", "memory");
    return 0;
}
