# SPDX-License-Identifier: Apache-2.0
"""The list of system calls that a generated program may make, as a seccomp filter.

Everything that is not listed answers EPERM. An argument is compared in its lower 32 bits, which are
what the kernel reads of a socket's family, a clone's flags and an ioctl's command."""

import platform
import struct

from unmask.rows.errors import EnvironmentFault

# name:number on x86_64:number on aarch64, "-" where the architecture has no such call. Not listed on
# purpose: namespaces, mounts, tracing and other processes' memory, keys, bpf, perf events, io_uring,
# memory files, System V memory and queues, POSIX queues, pidfd_getfd, userfaultfd, personality.
CALLS = """
read:0:63 write:1:64 open:2:- openat:257:56 openat2:437:437 close:3:57 close_range:436:436
stat:4:- fstat:5:80 lstat:6:- newfstatat:262:79 statx:332:291 poll:7:- ppoll:271:73 lseek:8:62
mmap:9:222 mprotect:10:226 munmap:11:215 mremap:25:216 brk:12:214 madvise:28:233 msync:26:227
mincore:27:232 rt_sigaction:13:134 rt_sigprocmask:14:135 rt_sigreturn:15:139
rt_sigtimedwait:128:137 rt_sigpending:127:136 rt_sigsuspend:130:133 sigaltstack:131:132
pread64:17:67 pwrite64:18:68 readv:19:65 writev:20:66 preadv:295:69 pwritev:296:70
preadv2:327:286 pwritev2:328:287 access:21:- faccessat:269:48 faccessat2:439:439 pipe:22:-
pipe2:293:59 select:23:- pselect6:270:72 sched_yield:24:124 dup:32:23 dup2:33:- dup3:292:24
pause:34:- nanosleep:35:101 clock_nanosleep:230:115 clock_gettime:228:113 clock_getres:229:114
gettimeofday:96:169 time:201:- times:100:153 getitimer:36:102 setitimer:38:103 alarm:37:-
getpid:39:172 getppid:110:173 gettid:186:178 getuid:102:174 geteuid:107:175 getgid:104:176
getegid:108:177 getgroups:115:158 getresuid:118:148 getresgid:120:150 getpgid:121:155
getpgrp:111:- getsid:124:156 setsid:112:157 setpgid:109:154 connect:42:203 accept:43:202
accept4:288:242 sendto:44:206 recvfrom:45:207 sendmsg:46:211 recvmsg:47:212 sendmmsg:307:269
recvmmsg:299:243 shutdown:48:210 bind:49:200 listen:50:201 getsockname:51:204 getpeername:52:205
setsockopt:54:208 getsockopt:55:209 fork:57:- vfork:58:- execve:59:221 exit:60:93
exit_group:231:94 wait4:61:260 waitid:247:95 kill:62:129 tkill:200:130 tgkill:234:131
uname:63:160 fcntl:72:25 flock:73:32 fsync:74:82 fdatasync:75:83 truncate:76:45 ftruncate:77:46
fallocate:285:47 getdents:78:- getdents64:217:61 getcwd:79:17 chdir:80:49 fchdir:81:50
rename:82:- renameat:264:38 renameat2:316:276 mkdir:83:- mkdirat:258:34 rmdir:84:- creat:85:-
link:86:- linkat:265:37 unlink:87:- unlinkat:263:35 symlink:88:- symlinkat:266:36 readlink:89:-
readlinkat:267:78 chmod:90:- fchmod:91:52 fchmodat:268:53 umask:95:166 utime:132:- utimes:235:-
utimensat:280:88 futimesat:261:- getrlimit:97:163 setrlimit:160:164 prlimit64:302:261
getrusage:98:165 sysinfo:99:179 getpriority:140:141 sched_getaffinity:204:123
sched_getparam:143:121 sched_getscheduler:145:120 sched_get_priority_max:146:125
sched_get_priority_min:147:126 getcpu:309:168 arch_prctl:158:- futex:202:98 futex_waitv:449:449
set_tid_address:218:96 set_robust_list:273:99 get_robust_list:274:100 rseq:334:293
membarrier:324:283 restart_syscall:219:128 getrandom:318:278 epoll_create:213:-
epoll_create1:291:20 epoll_ctl:233:21 epoll_wait:232:- epoll_pwait:281:22 epoll_pwait2:441:441
eventfd:284:- eventfd2:290:19 timerfd_create:283:85 timerfd_settime:286:86
timerfd_gettime:287:87 signalfd:282:- signalfd4:289:74 sendfile:40:71 splice:275:76 tee:276:77
copy_file_range:326:285 statfs:137:43 fstatfs:138:44 fadvise64:221:223 readahead:187:213
timer_create:222:107 timer_settime:223:110 timer_gettime:224:108 timer_getoverrun:225:109
timer_delete:226:111
"""

ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
# Calls of which one argument decides: (clone, socket, socketpair, ioctl, prctl, clone3).
CLONE, SOCKET, SOCKETPAIR, IOCTL, PRCTL, CLONE3 = ((56, 220), (41, 198), (53, 199), (16, 29),
                                                   (157, 167), (435, 435))
# CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET.
NAMESPACES = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
AF_UNIX = 1
# TCGETS, TIOCGPGRP, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX: none writes to a terminal.
TERMINAL = (0x5401, 0x540F, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
# PDEATHSIG, DUMPABLE, NAME, NO_NEW_PRIVS and their reading halves.
PROCESS = (1, 2, 3, 4, 15, 16, 38, 39)

LOAD, EQUAL, ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06
ALLOW, KILL, EPERM, ENOSYS = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050026
NUMBER_AT, ARCHITECTURE_AT = 0, 4


def _one(code, value, if_true=0, if_false=0):
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _argument(index):
    return 16 + 8 * index  # the lower half on a little-endian machine


def _when(number, body):
    """The body for one system call; it always returns."""
    return [_one(EQUAL, number, 0, len(body))] + body


def _one_of(values):
    """Allow when the loaded argument is one of the values."""
    tests = [_one(EQUAL, value, len(values) - i) for i, value in enumerate(values)]
    return tests + [_one(RETURN, EPERM), _one(RETURN, ALLOW)]


def allowed_numbers(machine):
    """The numbers of CALLS on this architecture."""
    column = 1 + ARCHITECTURES[machine][1]
    numbers = (word.split(":")[column] for word in CALLS.split())
    return sorted(int(number) for number in numbers if number != "-")


def build_filter(machine=None):
    """The BPF program as bubblewrap's --seccomp reads it."""
    machine = machine or platform.machine()
    if machine not in ARCHITECTURES:
        raise EnvironmentFault(f"NOT RUN: needs x86_64 or aarch64 for programs, and this is {machine}")
    architecture, column = ARCHITECTURES[machine]
    program = [_one(LOAD, ARCHITECTURE_AT), _one(EQUAL, architecture, 1), _one(RETURN, KILL),
               _one(LOAD, NUMBER_AT)]
    program += _when(CLONE[column], [_one(LOAD, _argument(0)), _one(ANY_BIT, NAMESPACES, 0, 1),
                                     _one(RETURN, EPERM), _one(RETURN, ALLOW)])
    # Its flags lie in memory, which no filter reads; without it the C library takes clone.
    program += _when(CLONE3[column], [_one(RETURN, ENOSYS)])
    for call, index, values in ((SOCKET, 0, (AF_UNIX,)), (SOCKETPAIR, 0, (AF_UNIX,)),
                                (IOCTL, 1, TERMINAL), (PRCTL, 0, PROCESS)):
        program += _when(call[column], [_one(LOAD, _argument(index))] + _one_of(values))
    numbers = allowed_numbers(machine)
    program += [_one(EQUAL, number, len(numbers) - i) for i, number in enumerate(numbers)]
    program += [_one(RETURN, EPERM), _one(RETURN, ALLOW)]
    return b"".join(program)
