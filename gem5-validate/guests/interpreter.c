/* Interprets a program for a small stack machine: the lengths of the Collatz sequences of the
 * numbers from 1 to SCALE, summed up. */
#include "guest.h"

enum operation {
    PUSH,
    LOAD,
    STORE,
    ADD,
    MULTIPLY,
    HALVE,
    IS_ODD,
    IS_GREATER,
    JUMP_IF,
    END,
};

struct instruction {
    enum operation operation;
    int64_t operand; /* constant, number of a variable, or where to jump */
};

enum {
    LIMIT,
    START,
    NUMBER,
    LENGTH,
    N_VARIABLES
};

static const struct instruction PROGRAM[] = {
    {PUSH, 1},      {STORE, START},  {LOAD, START},   {STORE, NUMBER}, /* 2: next start */
    {LOAD, LENGTH}, {PUSH, 1},       {ADD, 0},        {STORE, LENGTH}, /* 4: next step */
    {LOAD, NUMBER}, {IS_ODD, 0},     {JUMP_IF, 16},   {LOAD, NUMBER},  /* 11: even */
    {HALVE, 0},     {STORE, NUMBER}, {PUSH, 1},       {JUMP_IF, 22},   {LOAD, NUMBER}, /* 16 */
    {PUSH, 3},      {MULTIPLY, 0},   {PUSH, 1},       {ADD, 0},        {STORE, NUMBER},
    {LOAD, NUMBER}, {PUSH, 1},       {IS_GREATER, 0}, {JUMP_IF, 4}, /* 22: at one? */
    {LOAD, START},  {PUSH, 1},       {ADD, 0},        {STORE, START},  {LOAD, LIMIT},
    {LOAD, START},  {IS_GREATER, 0}, {JUMP_IF, 2},    {END, 0},
};

static void run(int64_t *variables) {
    int64_t stack[8];
    int64_t *top = stack; /* one past the topmost value */
    for (const struct instruction *at = PROGRAM;; at++) {
        switch (at->operation) {
        case PUSH:
            *top++ = at->operand;
            break;
        case LOAD:
            *top++ = variables[at->operand];
            break;
        case STORE:
            variables[at->operand] = *--top;
            break;
        case ADD:
            top--;
            top[-1] += top[0];
            break;
        case MULTIPLY:
            top--;
            top[-1] *= top[0];
            break;
        case HALVE:
            top[-1] /= 2;
            break;
        case IS_ODD:
            top[-1] %= 2;
            break;
        case IS_GREATER:
            top--;
            top[-1] = top[-1] > top[0];
            break;
        case JUMP_IF:
            if (*--top != 0)
                at = &PROGRAM[at->operand] - 1;
            break;
        case END:
            return;
        }
    }
}

int main(int n_arguments, char **arguments) {
    int64_t scale = (int64_t)read_scale(n_arguments, arguments);
    int64_t variables[N_VARIABLES] = {[LIMIT] = scale + 1};
    run(variables);
    return finish("interpreter", (uint64_t)variables[LENGTH]);
}
