// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package nodedriver

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/inventory"
	"github.com/dray-project/dray/agent/podresources"
)

// step is something that may happen. It returns false if it cannot happen now.
type step struct {
	name   string
	weight int
	do     func(*model) bool
}

var modelSteps = []step{
	{"a pod wants plugin devices", 5, func(m *model) bool {
		if len(m.pods) > 12 {
			return false
		}
		m.newPod("plugin")
		return true
	}},
	{"a pod wants a claim", 8, func(m *model) bool {
		if len(m.pods) > 12 {
			return false
		}
		claim := m.newClaim()
		if claim == nil {
			return false
		}
		m.newPod("claim").claim = claim
		return true
	}},
	{"a static pod wants a plugin device", 1, func(m *model) bool {
		if len(m.pods) > 12 || !m.up || m.blind {
			return false
		}
		pod := m.newPod("static")
		pod.inAPI, pod.mirror = false, time.Now().Add(time.Duration(m.rand.IntN(40))*time.Second)
		m.start(pod)
		return true
	}},
	{"kubelet starts a pod", 20, func(m *model) bool {
		pod := m.choosePod(func(p *modelPod) bool {
			return p.inAPI && !p.running && !p.over && !isOver(p) && p.DeletionTimestamp == nil
		})
		if pod == nil || !m.up || !m.kubelet.ready {
			return false
		}
		m.start(pod)
		return true
	}},
	{"kubelet writes the status of a pod", 10, func(m *model) bool {
		pod := m.choosePod(func(p *modelPod) bool {
			return p.inAPI && (p.over && !isOver(p) || p.running && p.Status.StartTime == nil)
		})
		if pod == nil || !m.up {
			return false
		}
		m.writeStatus(pod)
		return true
	}},
	{"the containers of a pod end", 2, func(m *model) bool {
		pod := m.choosePod(func(p *modelPod) bool { return p.running })
		if pod == nil {
			return false
		}
		pod.running = false
		m.note("pod %s (%s)", pod.Name, pod.UID)
		return true
	}},
	{"kubelet ends a pod", 12, func(m *model) bool {
		pod := m.choosePod(func(p *modelPod) bool {
			return !p.running && !p.over && (p.begun || p.devices != nil || p.DeletionTimestamp != nil || !p.inAPI)
		})
		if pod == nil || !m.up || !m.kubelet.ready {
			return false
		}
		m.finish(pod)
		return true
	}},
	{"a pod is deleted", 2, func(m *model) bool {
		pod := m.choosePod(func(p *modelPod) bool { return p.inAPI && p.DeletionTimestamp == nil })
		if pod == nil {
			return false
		}
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = ptr.To(metav1.Now()), pod.Spec.TerminationGracePeriodSeconds
		if pod.deadline.IsZero() {
			pod.deadline = time.Now().Add(time.Duration(*pod.Spec.TerminationGracePeriodSeconds) * time.Second)
		}
		return true
	}},
	{"a pod is deleted by force", 2, func(m *model) bool {
		pod := m.choosePod(func(p *modelPod) bool { return p.inAPI && !isStatic(p) })
		if pod == nil || m.blind {
			return false
		}
		m.note("pod %s (%s)", pod.Name, pod.UID)
		m.removeFromAPI(pod)
		return true
	}},
	{"a pod is gone from the API server", 10, func(m *model) bool {
		pod := m.choosePod(func(p *modelPod) bool { return p.inAPI && isOver(p) && (p.DeletionTimestamp != nil || isStatic(p)) })
		if pod == nil {
			return false
		}
		m.removeFromAPI(pod)
		return true
	}},
	{"the claim of a pod that ended is deallocated", 6, func(m *model) bool {
		pod := m.choosePod(func(p *modelPod) bool { return p.claim != nil && isOver(p) })
		if pod == nil {
			return false
		}
		m.deallocate(pod)
		return true
	}},
	{"kubelet learns of pods", 8, func(m *model) bool {
		if m.up {
			m.sync()
		}
		return m.up
	}},
	{"kubelet is offered devices", 14, func(m *model) bool {
		p := m.asked()
		if p == nil || !m.up {
			return false
		}
		m.offer(p)
		return true
	}},
	{"kubelet prepares a claim again", 3, func(m *model) bool {
		pod := m.choosePod(func(p *modelPod) bool { return p.running && p.claim != nil })
		if pod == nil || !m.up {
			return false
		}
		m.prepare(m.asked(), pod)
		return true
	}},
	{"kubelet dies", 1, func(m *model) bool {
		m.up = false
		return true
	}},
	{"kubelet starts", 3, func(m *model) bool {
		if m.up {
			return false
		}
		m.startKubelet()
		return true
	}},
	{"a driver dies", 1, func(m *model) bool {
		i := m.rand.IntN(len(m.drivers))
		m.drivers[i] = nil
		return true
	}},
	{"a driver dies at its next write", 1, func(m *model) bool {
		if !m.chance(50) {
			return false
		}
		m.store.kill = []string{"before", "after"}[m.rand.IntN(2)]
		return true
	}},
	{"a driver starts", 12, func(m *model) bool {
		i := m.rand.IntN(len(m.drivers))
		if m.drivers[i] != nil {
			return false
		}
		m.startDriver(i)
		return true
	}},
	{"the ledger is lost", 1, func(m *model) bool {
		if !m.chance(10) {
			return false
		}
		m.lose()
		return true
	}},
	// The next two are rows of other steps, which hardly ever come in this order by chance.
	{"a device is given again before a driver takes over what it was told", 2, func(m *model) bool {
		old := m.choosePod(func(p *modelPod) bool {
			return p.running && p.inAPI && p.devices != nil && p.DeletionTimestamp == nil && !isStatic(p)
		})
		p := m.drivers[m.rand.IntN(len(m.drivers))]
		if old == nil || p == nil || !m.up || !m.kubelet.ready || len(m.pods) > 12 {
			return false
		}
		old.running = false
		m.finish(old)
		m.writeStatus(old)
		m.ask(p)
		m.list(p)
		m.start(m.newPod("plugin"))
		return true
	}},
	{"the ledger is lost while a pod runs that was deleted by force", 1, func(m *model) bool {
		pod := m.choosePod(func(p *modelPod) bool { return p.running && p.inAPI && p.devices != nil && !isStatic(p) })
		if pod == nil || !m.up || m.blind || !m.chance(10) {
			return false
		}
		m.removeFromAPI(pod)
		m.sync()
		m.lose()
		return true
	}},
	{"a driver looks", 20, func(m *model) bool {
		p := m.drivers[m.rand.IntN(len(m.drivers))]
		if p == nil {
			return false
		}
		m.ask(p)
		m.list(p)
		m.tell(p)
		return true
	}},
	{"a driver asks kubelet", 14, func(m *model) bool {
		p := m.drivers[m.rand.IntN(len(m.drivers))]
		if p == nil || p.look != nil {
			return false
		}
		m.ask(p)
		return true
	}},
	{"a driver asks the API server", 16, func(m *model) bool {
		p := m.drivers[m.rand.IntN(len(m.drivers))]
		if p == nil || p.look == nil || p.listed {
			return false
		}
		m.list(p)
		return true
	}},
	{"a driver takes over what it was told", 18, func(m *model) bool {
		p := m.drivers[m.rand.IntN(len(m.drivers))]
		if p == nil || !p.listed {
			return false
		}
		m.tell(p)
		return true
	}},
	{"a device is away", 1, func(m *model) bool {
		if m.unknown() {
			return false // see lose
		}
		shown := &inventory.Inventory{}
		away := m.rand.IntN(len(m.in.Devices))
		for i, device := range m.in.Devices {
			if i != away {
				shown.Devices = append(shown.Devices, device)
			}
		}
		m.show(shown)
		return true
	}},
	{"all devices are there", 3, func(m *model) bool {
		m.show(m.in)
		return true
	}},
	{"a second passes", 8, func(m *model) bool {
		m.advance(time.Second)
		return true
	}},
	{"some time passes", 4, func(m *model) bool {
		// Drivers look every ten seconds, unless they are held up.
		for range m.rand.IntN(10) {
			m.advance(kubeletInterval)
			for _, p := range m.drivers {
				if p != nil && m.chance(70) {
					m.ask(p)
					m.list(p)
					m.tell(p)
				}
			}
			if wrong := m.violation(); wrong != "" {
				m.wrong = wrong
			}
		}
		return true
	}},
}

func (m *model) writeStatus(pod *modelPod) {
	if pod.Status.StartTime == nil {
		pod.Status.StartTime = ptr.To(metav1.Now())
	}
	pod.Status.Phase = corev1.PodRunning
	if pod.over {
		pod.Status.Phase = corev1.PodSucceeded
	}
	// A pod may run on whose phase others set; that is in TestJudgeRemembers.
}

// unknown tells whether a ledger is to be rebuilt.
func (m *model) unknown() bool {
	_, known := m.stored()
	return !known
}

// lose is a folder that was removed or a damaged file, after which all drivers start anew. The ledger is rebuilt
// for the devices that are there: one that is away at that time would be taken for free when it comes back.
func (m *model) lose() {
	m.show(m.in)
	for i := range m.drivers {
		m.drivers[i] = nil
	}
	if m.store.content != nil {
		m.lost = true
	}
	m.store.damaged = m.chance(50)
	if !m.store.damaged {
		m.store.content = nil
	}
}

func (m *model) show(in *inventory.Inventory) {
	m.shown = in
	for _, p := range m.drivers {
		if p != nil {
			p.update(in)
		}
	}
}

func (m *model) ask(p *instance) {
	p.look, p.listed = &observation{}, false
	if m.up && !m.blind {
		p.look.answer = podresources.AnswerOf(time.Now(), m.kubelet.list())
		return
	}
	p.look.kubeletErr, p.look.noSocket = errors.New("kubelet does not answer"), m.blind
}

func (m *model) list(p *instance) {
	p.listed = true
	if p.look.holds, p.look.podsNotListed = nil, false; !p.kubelet.needsPods(p.look, []*driverServer{p.driverServer}) {
		m.did["pods are not asked for"]++
		return
	}
	m.did["pods are asked for"]++
	if m.chance(5) {
		p.look.podsErr = errors.New("the API server does not answer")
		return
	}
	p.look.pods = m.apiPods()
}

// forget drops what is over for everybody.
func (m *model) forget() {
	kept := m.pods[:0]
	for _, pod := range m.pods {
		if pod.inAPI || pod.running || !pod.over || !pod.mirror.IsZero() {
			kept = append(kept, pod)
		}
	}
	m.pods = kept
}

// run takes random steps, and returns what is wrong after one of them.
func (m *model) run(steps int) string {
	total := 0
	for _, s := range modelSteps {
		total += s.weight
	}
	for taken := 0; taken < steps; {
		at := m.rand.IntN(total)
		for _, s := range modelSteps {
			if at -= s.weight; at >= 0 {
				continue
			}
			m.log = append(m.log, s.name)
			if !s.do(m) {
				m.log = m.log[:len(m.log)-1]
			} else {
				taken++
				m.did["step: "+s.name]++
				if len(m.holders()) > 0 {
					m.did["steps with devices in use"]++
				}
				m.forget()
				if wrong := cmp.Or(m.wrong, m.violation()); wrong != "" {
					return wrong
				}
			}
			break
		}
	}
	return m.settle()
}

// settle ends all pods, and looks for holds that nobody gives up.
func (m *model) settle() string {
	m.store.kill = ""
	m.show(m.in)
	if !m.up {
		m.startKubelet()
	}
	m.sync()
	for range 1000 {
		for i := range m.drivers {
			m.startDriver(i)
		}
		for _, pod := range m.pods {
			if pod.Name == "driver" {
				m.kubelet.active[pod.UID] = pod.Pod
				continue
			}
			pod.running = false
			if !pod.over {
				m.finish(pod)
			}
			if pod.over && pod.inAPI {
				m.writeStatus(pod)
				m.removeFromAPI(pod)
			}
		}
		m.advance(30 * time.Second)
		m.sync()
		m.forget()
		for _, p := range m.drivers {
			if p != nil {
				p.look = nil
				m.ask(p)
				m.list(p)
				m.tell(p)
			}
		}
		if wrong := m.violation(); wrong != "" {
			return wrong
		}
		if p := m.drivers[0]; p != nil && len(m.pods) == 1 && (m.blind || len(p.ledger.Load().Holds()) == 0) {
			return ""
		}
	}
	return fmt.Sprintf("all pods ended, and there are %d pods and holds %v", len(m.pods), m.drivers[0].ledger.Load().Holds())
}

// stepsOfEpisode are taken on one node.
const stepsOfEpisode = 1000

// TestModel takes random steps of kubelet, driver, API server and time, with processes that die at any write of
// the ledger. After each step, no exclusive device has two holders, and the ledger knows all that there are.
// MODEL_STEPS says how many steps, MODEL_SEED which seed is the first.
func TestModel(t *testing.T) {
	steps, seed := 20_000, uint64(1)
	for name, set := range map[string]func(int){"MODEL_STEPS": func(n int) { steps = n }, "MODEL_SEED": func(n int) { seed = uint64(n) }} {
		if text := os.Getenv(name); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			set(n)
		}
	}
	writes, kills := 0, 0
	did := make(map[string]int)
	for taken := 0; taken < steps; taken += stepsOfEpisode {
		synctest.Test(t, func(t *testing.T) {
			m := newModel(t, seed)
			m.blind = seed%10 == 0
			if wrong := m.run(stepsOfEpisode); wrong != "" {
				t.Fatalf("%s\n%s", wrong, m.describe())
			}
			writes, kills = writes+m.store.writes, kills+m.store.kills
			for what, times := range m.did {
				did[what] += times
			}
		})
		seed++
	}
	t.Logf("%d steps, %d writes of the ledger, %d of which killed the driver", steps, writes, kills)
	for _, what := range slices.Sorted(maps.Keys(did)) {
		t.Logf("%s: %d", what, did[what])
	}
}
