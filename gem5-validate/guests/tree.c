/* Builds a treap of SCALE random keys node by node, looks all of them up, and removes every
 * second one.
 *
 * Source: R. Seidel, C. R. Aragon, "Randomized Search Trees", Algorithmica 16, 1996.
 */
#include "guest.h"

struct node {
    struct node *left, *right;
    uint64_t key;
    uint64_t priority; /* no child has a greater one */
};

static struct node *rotate_right(struct node *node) {
    struct node *up = node->left;
    node->left = up->right;
    up->right = node;
    return up;
}

static struct node *rotate_left(struct node *node) {
    struct node *up = node->right;
    node->right = up->left;
    up->left = node;
    return up;
}

static struct node *insert(struct node *node, uint64_t key, uint64_t priority) {
    if (node == NULL) {
        struct node *leaf = need(sizeof *leaf);
        *leaf = (struct node){.key = key, .priority = priority};
        return leaf;
    }
    if (key < node->key) {
        node->left = insert(node->left, key, priority);
        if (node->left->priority > node->priority)
            return rotate_right(node);
    } else if (key > node->key) {
        node->right = insert(node->right, key, priority);
        if (node->right->priority > node->priority)
            return rotate_left(node);
    }
    return node;
}

static struct node *merge(struct node *low, struct node *high) {
    if (low == NULL || high == NULL)
        return low != NULL ? low : high;
    if (low->priority > high->priority) {
        low->right = merge(low->right, high);
        return low;
    }
    high->left = merge(low, high->left);
    return high;
}

static void remove_key(struct node **place, uint64_t key) {
    while (*place != NULL && (*place)->key != key)
        place = key < (*place)->key ? &(*place)->left : &(*place)->right;
    if (*place == NULL)
        return;
    struct node *gone = *place;
    *place = merge(gone->left, gone->right);
    free(gone);
}

static uint64_t depth_of(const struct node *node, uint64_t key) {
    uint64_t depth = 0;
    for (; node != NULL && node->key != key; depth++)
        node = key < node->key ? node->left : node->right;
    return depth;
}

static void free_all(struct node *node) {
    if (node == NULL)
        return;
    free_all(node->left);
    free_all(node->right);
    free(node);
}

int main(int n_arguments, char **arguments) {
    size_t n_keys = read_scale(n_arguments, arguments);
    uint64_t *keys = need(n_keys * sizeof *keys);
    uint64_t state = 1;
    struct node *root = NULL;
    for (size_t i = 0; i < n_keys; i++) {
        keys[i] = next_random(&state);
        root = insert(root, keys[i], next_random(&state));
    }
    uint64_t checksum = 0;
    for (size_t i = 0; i < n_keys; i++)
        checksum = checksum * 31 + depth_of(root, keys[i]);
    for (size_t i = 0; i < n_keys; i += 2)
        remove_key(&root, keys[i]);
    for (size_t i = 1; i < n_keys; i += 2)
        checksum = checksum * 31 + depth_of(root, keys[i]);
    free_all(root);
    free(keys);
    return finish("tree", checksum);
}
