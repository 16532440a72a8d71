// Package process is a provider of virtual nodes that runs the commands of containers as
// processes of this machine. There is no isolation: it is for demonstrations and tests, in
// which a pod really prints the devices that it got.
//
//	CreatePod ─► check ─► one goroutine per container: start, wait, start again
//	DeletePod ─► SIGTERM to each process group ─ grace ─► SIGKILL
//
// A container needs a command; images are not run. References to variables, such as $(NAME),
// are expanded as kubelet does. Of its devices, the environment
// variables of CDI specs are applied, and mounts and device nodes that have the same path
// in the container as outside. What a process cannot have without a container is
// refused: CreatePod returns an error of the class InvalidInput that says what and why.
//
// On Linux, the kernel ends the command of a container when the provider's process dies.
// Nothing ends what that command started: a command that starts others in the background
// and is killed so leaves them behind.
//
// Output goes to <folder>/<namespace>_<name>_<UID>/<container>/<restart>.log.
package process
