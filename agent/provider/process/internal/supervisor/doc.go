// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package supervisor runs the containers of a pod in a process of its own, which survives restarts
// of the agent.
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
// No container starts before supervisor.json identifies the supervisor by PID, start time and boot
// ID. The supervisor waits for this file. So Open finds the supervisor later, and cannot mistake
// another process for it.
//
// An init is PID 1 of its container, and the supervisor that of the pod. When one ends, the kernel
// kills all processes in its PID namespace. So one SIGKILL ends a pod.
//
// If the supervisor was killed, Again starts a new one in the same folder. It continues to count
// restarts.
//
// If the plan has a cgroup, supervisor and inits start in a child of it without limits. A command
// is in its container's cgroup before it is executed.
//
// Supervisor and init are the same program, started again. Main must be called first in main.
package supervisor
