/* SPDX-License-Identifier: BSD-3-Clause
 *
 * forward.S: every name of libblas.so.3 as a jump to the BLAS behind, which leaves arguments,
 * stack and results as they are, whatever the signature. The symbols are weak: where the library
 * has a function of its own under a name (src/preload), the linker takes that.
 */
#include "libblas/names.h"

#if defined(__x86_64__)

.macro jump_through row
        endbr64
        jmp     *\row(%rip)
.endm

.macro ask_for row
        lea     \row(%rip), %r11
        jmp     fleet_ask
.endm

/* Saves all that may hold arguments (al: the number of vector registers of a variadic call). */
        .text
        .p2align 4
        .type   fleet_ask, %function
fleet_ask:
        .cfi_startproc
        push    %rax
        push    %rdi
        push    %rsi
        push    %rdx
        push    %rcx
        push    %r8
        push    %r9
        sub     $128, %rsp
        .cfi_adjust_cfa_offset 184
        .irp    i, 0, 1, 2, 3, 4, 5, 6, 7
        movups  %xmm\i, 16*\i(%rsp)
        .endr
        mov     %r11, %rdi
        call    fleet_resolve
        mov     %rax, %r11
        .irp    i, 0, 1, 2, 3, 4, 5, 6, 7
        movups  16*\i(%rsp), %xmm\i
        .endr
        add     $128, %rsp
        pop     %r9
        pop     %r8
        pop     %rcx
        pop     %rdx
        pop     %rsi
        pop     %rdi
        pop     %rax
        .cfi_adjust_cfa_offset -184
        jmp     *%r11
        .cfi_endproc
        .size   fleet_ask, . - fleet_ask

#elif defined(__aarch64__)

.macro jump_through row
        hint    #34 /* bti c */
        adrp    x16, \row
        ldr     x16, [x16, #:lo12:\row]
        br      x16
.endm

.macro ask_for row
        hint    #36 /* bti j */
        adrp    x17, \row
        add     x17, x17, #:lo12:\row
        b       fleet_ask
.endm

        .text
        .p2align 4
        .type   fleet_ask, %function
fleet_ask:
        .cfi_startproc
        stp     x29, x30, [sp, #-224]!
        .cfi_def_cfa_offset 224
        .cfi_offset x29, -224
        .cfi_offset x30, -216
        mov     x29, sp
        stp     x0, x1, [sp, #16]
        stp     x2, x3, [sp, #32]
        stp     x4, x5, [sp, #48]
        stp     x6, x7, [sp, #64]
        str     x8, [sp, #80]
        stp     q0, q1, [sp, #96]
        stp     q2, q3, [sp, #128]
        stp     q4, q5, [sp, #160]
        stp     q6, q7, [sp, #192]
        mov     x0, x17
        bl      fleet_resolve
        mov     x16, x0
        ldp     x0, x1, [sp, #16]
        ldp     x2, x3, [sp, #32]
        ldp     x4, x5, [sp, #48]
        ldp     x6, x7, [sp, #64]
        ldr     x8, [sp, #80]
        ldp     q0, q1, [sp, #96]
        ldp     q2, q3, [sp, #128]
        ldp     q4, q5, [sp, #160]
        ldp     q6, q7, [sp, #192]
        ldp     x29, x30, [sp], #224
        .cfi_restore x29
        .cfi_restore x30
        .cfi_def_cfa_offset 0
        br      x16
        .cfi_endproc
        .size   fleet_ask, . - fleet_ask

#else
#error "forward.S does not know this machine's jumps"
#endif

/* A name: its jump, the code that its row leads to at first, and the row (struct Forwarded). */
.macro forward name
        .text
        .p2align 4
        .weak   \name
        .type   \name, %function
\name:
        jump_through .Lrow_\name
        .size   \name, . - \name
.Lask_\name:
        ask_for .Lrow_\name

        .section .rodata
.Lname_\name:
        .asciz  "\name"

        .data
        .p2align 3
.Lrow_\name:
        .quad   .Lask_\name
        .quad   .Lname_\name
.endm

        .irp    name, FLEET_FORTRAN_NAMES
        forward \name
        .endr
        .irp    name, FLEET_CBLAS_NAMES
        forward \name
        .endr

        .section .note.GNU-stack, "", %progbits
