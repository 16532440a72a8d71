// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package supervisor runs the containers of a pod in a process of its own, which outlives the
// one that started it.
//
//	agent ── Create: plan.json, start, supervisor.json ──► supervisor: PID 1 of the pod,
//	  │                                                      │ network, IPC, host name, /dev/shm
//	  │ Open: after a restart                                ├─► init: PID 1 of a container, /proc,
//	  │                                                      │     no capabilities, seccomp
//	  │                                                      │     ▲ orders: what probes run
//	  ├── End: ending.json, SIGTERM ──────────────────────►  │     └─► the command, as its user
//	  └── State ◄── state.json ◄───────────────────────────  └─► logs
//
// # Contract
//
// No container runs before the disk says which process its supervisor is: pid, the time when it
// started, and the boot of the machine. The supervisor waits for that. Whoever opens the
// folder later therefore finds it, and does not take another process for it.
//
// The kernel ends all processes of a container with its init, and all of a pod with its
// supervisor, also those that made sessions of their own. So SIGKILL of one process ends a pod.
//
// A pod whose supervisor was killed may have another one in the same folder (Again), which counts
// restarts on.
//
// If the plan has a control group, the supervisor and the inits are in a part of it without limits
// from their start, and a command is in its container's from before it is executed.
//
// Supervisor and init are this program again. Main must be called first thing in main.
package supervisor
