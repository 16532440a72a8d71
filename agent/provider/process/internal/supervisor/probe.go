// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// Reasons of Events. They are kubelet's.
const (
	reasonUnhealthy    = "Unhealthy"
	reasonProbeWarning = "ProbeWarning"
	reasonKilling      = "Killing"
	reasonBackOff      = "BackOff"
	reasonStarted      = "Started"
	reasonFailed       = "Failed"
)

// Kinds of probes, as in kubelet's Events.
const (
	liveness  = "Liveness"
	readiness = "Readiness"
	startup   = "Startup"
)

// probing runs the probes of one run of a container.
type probing struct {
	running     *running
	member      *member
	container   *launched
	cancel      context.CancelFunc
	group       sync.WaitGroup
	started     func()        // called when the startup probe has succeeded; containers that wait for this one then start
	startupDone chan struct{} // closed when the startup probe has succeeded
	// failed gets the grace period of the container when a startup or liveness probe has failed.
	failed chan time.Duration
}

// startProbes starts the probes of a running container. started is called when the startup probe
// has succeeded, or at once if there is none.
func (r *running) startProbes(m *member, container *launched, started func()) *probing {
	ctx, cancel := context.WithCancel(context.Background())
	p := &probing{
		running: r, member: m, container: container, cancel: cancel, started: started,
		startupDone: make(chan struct{}), failed: make(chan time.Duration, 1),
	}
	if m.spec.StartupProbe == nil {
		started()
		close(p.startupDone)
	} else {
		p.group.Go(func() { p.probeStartup(ctx, m.spec.StartupProbe) })
	}
	if m.spec.LivenessProbe != nil {
		p.group.Go(func() { p.probeLiveness(ctx, m.spec.LivenessProbe) })
	}
	if m.spec.ReadinessProbe != nil {
		p.group.Go(func() { p.probeReadiness(ctx, m.spec.ReadinessProbe) })
	}
	return p
}

// stop stops the probes, and waits for them.
func (p *probing) stop() {
	p.cancel()
	p.group.Wait()
}

func (p *probing) probeStartup(ctx context.Context, probe *corev1.Probe) {
	p.repeat(ctx, startup, probe, func(healthy bool) (done bool) {
		if !healthy {
			p.end(startup, probe)
			return true
		}
		p.change(func(status *corev1.ContainerStatus) {
			status.Started, status.Ready = ptr.To(true), p.member.spec.ReadinessProbe == nil
		})
		p.started()
		close(p.startupDone)
		return true
	})
}

func (p *probing) probeLiveness(ctx context.Context, probe *corev1.Probe) {
	if !p.awaitStartup(ctx) {
		return
	}
	p.repeat(ctx, liveness, probe, func(healthy bool) (done bool) {
		if !healthy {
			p.end(liveness, probe)
		}
		return !healthy
	})
}

func (p *probing) probeReadiness(ctx context.Context, probe *corev1.Probe) {
	if !p.awaitStartup(ctx) {
		return
	}
	p.repeat(ctx, readiness, probe, func(healthy bool) (done bool) {
		p.change(func(status *corev1.ContainerStatus) { status.Ready = healthy })
		return false
	})
}

func (p *probing) awaitStartup(ctx context.Context) bool {
	select {
	case <-p.startupDone:
		return true
	case <-ctx.Done():
		return false
	}
}

func (p *probing) change(change func(*corev1.ContainerStatus)) {
	p.running.mu.Lock()
	same := *p.member.status
	p.running.mu.Unlock()
	changed := same
	change(&changed)
	if changed.Ready == same.Ready && *changed.Started == *same.Started {
		return
	}
	p.running.logError(p.running.writeState(func() { change(p.member.status) }))
}

// end records that a probe failed, and has the container ended.
func (p *probing) end(kind string, probe *corev1.Probe) {
	if p.running.isEnding() {
		return // the pod is ending already
	}
	message := fmt.Sprintf("Container %s failed %s probe", p.member.Name, map[string]string{liveness: "liveness", startup: "startup"}[kind])
	if p.member.isSidecar() || p.running.plan.Pod.Spec.RestartPolicy != corev1.RestartPolicyNever {
		message += ", will be restarted"
	}
	p.running.event(p.member, corev1.EventTypeNormal, reasonKilling, message)
	grace := graceOf(p.running.plan.Pod)
	if probe.TerminationGracePeriodSeconds != nil {
		grace = time.Duration(*probe.TerminationGracePeriodSeconds) * time.Second
	}
	select {
	case p.failed <- grace:
	default: // another probe failed first
	}
}

// repeat runs a probe at its period. It calls tell as every does.
func (p *probing) repeat(ctx context.Context, kind string, probe *corev1.Probe, tell func(healthy bool) (done bool)) {
	p.every(ctx, kind, probe, time.Duration(max(probe.PeriodSeconds, 1))*time.Second, tell)
}

// every runs a probe at a period. When as many results in a row as the threshold are equal, it
// calls tell with the result. It returns when tell returns true. When the pod is ending, only
// readiness is still probed.
func (p *probing) every(ctx context.Context, kind string, probe *corev1.Probe, period time.Duration, tell func(healthy bool) (done bool)) {
	ending := p.running.ending
	if kind == readiness {
		ending = nil
	}
	began := time.Now()
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	var last bool
	var times int32
	for {
		if time.Since(began) >= time.Duration(probe.InitialDelaySeconds)*time.Second {
			healthy, err := p.once(ctx, kind, probe)
			if err == nil {
				if times == 0 || healthy != last {
					last, times = healthy, 0
				}
				times++
				enough := probe.SuccessThreshold
				if !healthy {
					enough = probe.FailureThreshold
				}
				if times >= enough && tell(healthy) {
					return
				}
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ending:
			return
		case <-ticker.C:
		}
	}
}

// maxTries is how often a probe is repeated that could not be run.
const maxTries = 3

// once runs a probe, and adds an event if it failed. An error says that the probe could not be run,
// or that ctx ended.
func (p *probing) once(ctx context.Context, kind string, probe *corev1.Probe) (healthy bool, err error) {
	var result result
	for range maxTries {
		if result, err = p.check(ctx, probe); err == nil || ctx.Err() != nil {
			break
		}
	}
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case err != nil:
		p.running.event(p.member, corev1.EventTypeWarning, reasonUnhealthy, bounded(fmt.Sprintf("%s probe errored and resulted in unknown state: %s", kind, err)))
	case !result.healthy:
		p.running.event(p.member, corev1.EventTypeWarning, reasonUnhealthy, bounded(fmt.Sprintf("%s probe failed: %s", kind, result.output)))
	case result.warning:
		p.running.event(p.member, corev1.EventTypeWarning, reasonProbeWarning, bounded(fmt.Sprintf("%s probe warning: %s", kind, result.output)))
	}
	return result.healthy, err
}

// maxMessage is the maximum length of an event's message, in bytes.
const maxMessage = 1024

func bounded(text string) string { return text[:min(len(text), maxMessage)] }
