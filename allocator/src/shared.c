/* shared.c - what the shared libraries need of the compiler's start files, without those.
 *
 * They are linked with -nostartfiles: the start files register transactions and finalizers that
 * exgen does not have, and run doing so in every program, which makes pages of code and
 * data resident even where nothing is ever allocated.  What is left is the name by which the C
 * library tells fork handlers of libraries that are unloaded, as exgen's never are (nodelete).
 */
#include "platform.h"

extern HIDDEN void *__dso_handle;
HIDDEN void *__dso_handle = NULL;
