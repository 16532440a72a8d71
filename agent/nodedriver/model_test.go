// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package nodedriver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/deviceplugin"
	"github.com/dray-project/dray/agent/draplugin"
	"github.com/dray-project/dray/agent/internal/checkpoint"
	"github.com/dray-project/dray/agent/inventory"
)

// killed is what a process panics with that dies at a write.
type killed struct{}

var errKilled = errors.New("the driver was killed")

// modelStore is a ledger's checkpoint in memory. It kills the process at a write that is armed, before or after
// it takes effect.
type modelStore struct {
	content json.RawMessage
	damaged bool
	kill    string // "", "before" or "after"
	writes  int
	kills   int
}

func (s *modelStore) Lock() (func(), error) { return func() {}, nil }

func (s *modelStore) Read() (json.RawMessage, error) {
	if s.damaged {
		return nil, &checkpoint.DamagedError{Reason: "on purpose"}
	}
	return s.content, nil
}

func (s *modelStore) Write(content json.RawMessage) error {
	s.writes++
	kill := s.kill
	if kill != "" {
		s.kill = ""
		s.kills++
	}
	if kill == "before" {
		panic(killed{})
	}
	s.content, s.damaged = content, false
	if kill == "after" {
		panic(killed{})
	}
	return nil
}

// modelPod is a pod as it is: in the API server, and on the node.
type modelPod struct {
	*corev1.Pod // as the API server has it, or had it
	inAPI       bool
	claim       *resourceapi.ResourceClaim // nil: it uses the device plugin
	running     bool                       // it has containers
	devices     []string                   // of the device plugin, that its containers have
	begun       bool                       // kubelet may have asked for its claim to be prepared
	deadline    time.Time                  // when its containers end at the latest; zero: they run on
	mirror      time.Time                  // when the API server learns of a static pod; zero: it knows
	over        bool                       // its containers ended, or never ran
}

// instance is a process of the driver.
type instance struct {
	*driverServer
	kubelet *kubelet
	dra     kubeletplugin.DRAPlugin
	look    *observation // an answer of kubelet to which the pods are added
	listed  bool         // they were
}

// model is a node, its driver, and an API server.
type model struct {
	t       *testing.T
	seed    uint64
	rand    *rand.Rand
	dir     string
	options Options
	store   *modelStore
	in      *inventory.Inventory // what the hardware has
	shown   *inventory.Inventory // what the source reports

	kubelet *modelKubelet
	up      bool // kubelet runs
	blind   bool // the driver does not see kubelet's pod-resources socket
	lost    bool // the ledger was lost since a driver started
	pods    []*modelPod
	claims  []*resourceapi.ResourceClaim // in the API server
	names   int
	drivers [2]*instance

	wrong string // what was wrong within a step
	log   []string
	did   map[string]int // what happened how often, to see that it does
}

const modelDriver = "gpu.example.com"

// modelInventory has four GPUs, one that is shared, and partitions that exclude each other.
func modelInventory() *inventory.Inventory {
	in := &inventory.Inventory{}
	add := func(name string, shares int, counters ...string) {
		device := inventory.Device{ID: inventory.ID{Driver: modelDriver, Pool: "node-1", Device: name}, Type: "gpu", Shares: shares}
		for _, counter := range counters {
			device.Consumes = append(device.Consumes, resourceapi.DeviceCounterConsumption{CounterSet: counter})
		}
		in.Devices = append(in.Devices, device)
	}
	for _, name := range []string{"a", "b"} {
		add(name, 0)
	}
	add("shared", 2)
	add("whole", 0, "gpu-9")
	add("half", 0, "gpu-9")
	return in
}

func newModel(t *testing.T, seed uint64) *model {
	m := &model{t: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 1)), dir: t.TempDir(), store: &modelStore{}, in: modelInventory(), did: make(map[string]int)}
	m.shown = m.in
	m.options = Options{NodeName: "node-1", KubeletDir: m.dir, CDIDir: filepath.Join(m.dir, "cdi"), Fronts: inventory.Fronts, Client: fake.NewClientset()}
	m.kubelet = newModelKubelet(modelDriver+"/gpu", m.rand)
	if err := os.MkdirAll(folder(m.dir, modelDriver), 0o750); err != nil {
		t.Fatal(err)
	}
	// The driver's own pod, which kubelet does not list before it knows its pods.
	m.pods = []*modelPod{{inAPI: true, running: true, Pod: &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "driver", UID: "uid-of-driver"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, StartTime: ptr.To(metav1.Now())},
	}}}
	m.startKubelet()
	return m
}

func (m *model) chance(percent int) bool { return m.rand.IntN(100) < percent }

func pick[T any](m *model, all []T) (one T, some bool) {
	if len(all) == 0 {
		return one, false
	}
	return all[m.rand.IntN(len(all))], true
}

// ctx logs nothing.
func (m *model) ctx() context.Context { return klog.NewContext(context.Background(), logr.Discard()) }

// call has a process do something, which may kill it.
func (m *model) call(p *instance, do func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			if _, is := cause.(killed); !is {
				panic(cause)
			}
			m.kill(p)
			err = errKilled
		}
	}()
	return do()
}

func (m *model) kill(p *instance) {
	for i := range m.drivers {
		if m.drivers[i] == p {
			m.drivers[i] = nil
		}
	}
	m.store.kill = ""
}

func (m *model) startDriver(i int) {
	if m.drivers[i] != nil {
		return
	}
	p := &instance{kubelet: newKubelet(&m.options)}
	p.driverServer = newDriverServer(&m.options, modelDriver, m.shown)
	p.claims = func(context.Context) ([]resourceapi.ResourceClaim, error) {
		if m.chance(10) {
			return nil, errors.New("the API server does not answer")
		}
		var out []resourceapi.ResourceClaim
		for _, claim := range m.claims {
			out = append(out, *claim)
		}
		return out, nil
	}
	m.drivers[i] = p
	p.driverServer.ledgerLost = m.lost
	ledger, err := inventory.NewLedger(m.store)
	if err != nil && !m.store.damaged {
		m.t.Fatal(err)
	}
	_ = m.call(p, func() error {
		p.attachLedger(m.ctx(), ledger)
		return nil
	})
	m.goOn(p)
}

// goOn does what a process does at its start until it waits.
func (m *model) goOn(p *instance) {
	_ = m.call(p, func() error {
		ledger := p.ledger.Load()
		if slices.Contains(ledger.Unknown(), inventory.FrontDRA) {
			if err := p.rebuildClaims(m.ctx(), ledger); err != nil {
				return err
			}
		}
		if len(ledger.Unknown()) == 0 {
			p.closeRebuilt.Do(func() { close(p.rebuilt) })
		}
		return nil
	})
}

// served tells whether kubelet can ask a process.
func (m *model) isServed(p *instance) bool {
	if p == nil {
		return false
	}
	m.goOn(p)
	select {
	case <-p.rebuilt:
	default:
		return false
	}
	if p.dra == nil {
		driver, plugin, err := draplugin.Unserved(m.ctx(), draplugin.Options{
			DriverName: modelDriver, NodeName: "node-1", KubeClient: m.options.Client, Ledger: p.ledger.Load(),
			PluginDataDir: folder(m.dir, modelDriver), CDIDir: m.options.CDIDir,
		})
		if err != nil {
			m.t.Fatal(err)
		}
		p.dra = plugin
		p.driverServer.dra.Store(driver)
		p.pushState()
	}
	return true
}

// asked is the process that kubelet asks.
func (m *model) asked() *instance {
	if m.chance(50) {
		m.drivers[0], m.drivers[1] = m.drivers[1], m.drivers[0]
	}
	for _, p := range m.drivers {
		if m.isServed(p) {
			return p
		}
	}
	return nil
}

// offer has kubelet be told of devices, as ListAndWatch does.
func (m *model) offer(p *instance) {
	in := p.in.Load()
	claimed := p.ledger.Load().UsedBy(in, inventory.FrontDRA)
	m.kubelet.healthy = nil
	for _, device := range in.Devices {
		if claimed(device.ID) {
			continue
		}
		for share := range max(device.Shares, 1) {
			id := device.ID.Device
			if device.Shares > 1 {
				id += "::" + strconv.Itoa(share)
			}
			m.kubelet.healthy = append(m.kubelet.healthy, id)
		}
	}
}

// startKubelet is a kubelet that knows static pods and no others.
func (m *model) startKubelet() {
	m.up = true
	m.kubelet.restart()
	for _, pod := range m.pods {
		if pod.running && isStatic(pod) {
			m.kubelet.active[pod.UID] = pod.Pod
		}
	}
}

func isStatic(pod *modelPod) bool { return strings.HasPrefix(pod.Name, "static-") }

// newPod makes a pod that is bound to the node. It may have the name of one that is gone from the API server.
func (m *model) newPod(kind string) *modelPod {
	m.names++
	name := kind + "-" + strconv.Itoa(m.names)
	if kind == "plugin" && m.chance(30) {
		old, some := pick(m, m.pods)
		used := func(p *modelPod) bool { return p.inAPI && p.Name == old.Name }
		if some && !isStatic(old) && !slices.ContainsFunc(m.pods, used) {
			name = old.Name
		}
	}
	one := corev1.ResourceRequirements{Limits: corev1.ResourceList{modelDriver + "/gpu": resource.MustParse("1")}}
	one.Requests = one.Limits
	grace := []int64{1, 30}[m.rand.IntN(2)]
	pod := &modelPod{inAPI: true, Pod: &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + strconv.Itoa(m.names))},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}, TerminationGracePeriodSeconds: &grace},
	}}
	if kind != "claim" {
		switch m.rand.IntN(5) {
		case 0: // in an ordinary init container only
			pod.Spec.InitContainers = []corev1.Container{{Name: "init", Resources: one}}
		case 1: // which is used again
			pod.Spec.InitContainers = []corev1.Container{{Name: "init", Resources: one}}
			pod.Spec.Containers[0].Resources = one
		case 2:
			pod.Spec.InitContainers = []corev1.Container{{Name: "sidecar", Resources: one, RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}}
			pod.Spec.Containers[0].Resources = one
		default:
			pod.Spec.Containers[0].Resources = one
		}
	}
	m.pods = append(m.pods, pod)
	return pod
}

// newClaim allocates a device that no other claim has. The scheduler knows nothing of the device plugin: what is
// published may be late. A device of which another claim has the counters may be allocated as well.
func (m *model) newClaim() *resourceapi.ResourceClaim {
	taken := make(map[string]int)
	for _, claim := range m.claims {
		taken[claim.Status.Allocation.Devices.Results[0].Device]++
	}
	device := m.in.Devices[m.rand.IntN(len(m.in.Devices))]
	if taken[device.ID.Device] >= max(device.Shares, 1) {
		return nil
	}
	m.names++
	uid := fmt.Sprintf("claim-%d", m.names)
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: uid, UID: types.UID(uid)}}
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{{Request: "gpu", Driver: modelDriver, Pool: "node-1", Device: device.ID.Device}},
	}}
	m.claims = append(m.claims, claim)
	return claim
}

// choosePod is a pod of which something is true, or nil. It is never the driver's own.
func (m *model) choosePod(is func(*modelPod) bool) *modelPod {
	var fit []*modelPod
	for _, pod := range m.pods {
		if pod.Name != "driver" && is(pod) {
			fit = append(fit, pod)
		}
	}
	pod, _ := pick(m, fit)
	return pod
}

// note adds what happened to the last step.
func (m *model) note(format string, values ...any) {
	m.log = append(m.log, "    "+fmt.Sprintf(format, values...))
}

// start has kubelet admit a pod and prepare its claim.
func (m *model) start(pod *modelPod) {
	defer func() { m.note("pod %s (%s): runs %v, devices %v", pod.Name, pod.UID, pod.running, pod.devices) }()
	p := m.asked()
	if pod.claim == nil {
		err := m.kubelet.admit(pod.Pod, func(ids []string) error {
			if p == nil {
				return errors.New("no plugin")
			}
			err := m.call(p, func() error {
				_, err := p.plugin.Allocate(&pluginapi.AllocateRequest{ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: ids}}})
				return err
			})
			if m.chance(3) {
				return errors.New("the answer is lost")
			}
			var allocated *deviceplugin.UseDefaultMethodError
			if errors.As(err, &allocated) {
				return nil
			}
			return err
		})
		m.did[fmt.Sprintf("plugin devices are given: %v", err == nil)]++
		if err != nil {
			pod.Status.Phase = corev1.PodFailed
			pod.over = true
			return
		}
		pod.running, pod.devices = true, m.kubelet.ofPod(pod.UID)
		return
	}
	m.kubelet.active[pod.UID] = pod.Pod
	pod.begun = true
	if m.prepare(p, pod) {
		pod.running = true
	}
}

func (m *model) prepare(p *instance, pod *modelPod) bool {
	if p == nil {
		return false
	}
	var failure error
	err := m.call(p, func() error {
		answer, err := p.dra.PrepareResourceClaims(m.ctx(), []*resourceapi.ResourceClaim{pod.claim})
		failure = answer[pod.claim.UID].Err
		return err
	})
	m.did[fmt.Sprintf("a claim is prepared: %v", err == nil && failure == nil)]++
	return err == nil && failure == nil && !m.chance(3)
}

// finish has kubelet end a pod whose containers ended.
func (m *model) finish(pod *modelPod) {
	if pod.begun {
		p := m.asked()
		if p == nil {
			return
		}
		var failure error
		err := m.call(p, func() error {
			answer, err := p.dra.UnprepareResourceClaims(m.ctx(), []kubeletplugin.NamespacedObject{{
				NamespacedName: types.NamespacedName{Namespace: "ns", Name: pod.claim.Name}, UID: pod.claim.UID,
			}})
			failure = answer[pod.claim.UID]
			return err
		})
		if err != nil || failure != nil || m.chance(3) {
			return
		}
		pod.begun = false
	}
	m.note("pod %s (%s) is over", pod.Name, pod.UID)
	pod.over = true
	delete(m.kubelet.active, pod.UID)
}

// sync has kubelet learn the pods of the API server.
func (m *model) sync() {
	for _, pod := range m.pods {
		if !pod.inAPI && pod.mirror.IsZero() && !pod.over { // deleted by force
			delete(m.kubelet.active, pod.UID)
			if pod.deadline.IsZero() {
				pod.deadline = time.Now().Add(time.Duration(*pod.Spec.TerminationGracePeriodSeconds) * time.Second)
			}
		}
		if pod.inAPI && pod.running && !isOver(pod) {
			m.kubelet.active[pod.UID] = pod.Pod
		}
	}
	m.kubelet.ready = true
}

func isOver(pod *modelPod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// removeFromAPI is what follows when a pod is gone from the API server: its claim is deallocated.
func (m *model) removeFromAPI(pod *modelPod) {
	pod.inAPI = false
	m.deallocate(pod)
	for _, p := range m.drivers {
		if p != nil && m.chance(50) { // the watch is late otherwise, or lost
			p.kubelet.judge.Observe(pod.DeepCopy())
		}
	}
}

func (m *model) deallocate(pod *modelPod) {
	m.claims = slices.DeleteFunc(m.claims, func(claim *resourceapi.ResourceClaim) bool { return claim == pod.claim })
}

// apiPods are the pods that the API server has.
func (m *model) apiPods() []corev1.Pod {
	var out []corev1.Pod
	for _, pod := range m.pods {
		if pod.inAPI {
			out = append(out, *pod.Pod)
		}
	}
	return out
}

// advance lets time pass.
func (m *model) advance(d time.Duration) {
	time.Sleep(d)
	for _, pod := range m.pods {
		if pod.running && !pod.deadline.IsZero() && m.up && m.kubelet.ready && !time.Now().Before(pod.deadline) {
			pod.running = false
			m.note("the grace period of pod %s (%s) is over", pod.Name, pod.UID)
		}
		if !pod.mirror.IsZero() && !time.Now().Before(pod.mirror) {
			pod.mirror, pod.inAPI = time.Time{}, true
		}
	}
}

// tell has a process take over what kubelet and the API server said.
func (m *model) tell(p *instance) {
	look := p.look
	p.look, p.listed = nil, false
	before, _ := m.stored()
	defer func() {
		now, _ := m.stored()
		if !slices.Equal(before, now) {
			m.note("kubelet reports %v; holds %v -> %v", look.report.InUse, before, now)
		}
	}()
	_ = m.call(p, func() error {
		p.kubelet.compare(look)
		p.handleObservation(m.ctx(), look)
		_ = p.dropAssumed(m.ctx())
		return nil
	})
}

// hold is that of a device.
func hold(device string, front inventory.Front, user string) inventory.Hold {
	return inventory.Hold{Device: inventory.ID{Driver: modelDriver, Pool: "node-1", Device: device}, Front: front, User: user}
}

// holders are who really has each device: running pods, by their claims or by plugin devices.
func (m *model) holders() []inventory.Hold {
	var out []inventory.Hold
	for _, pod := range m.pods {
		switch {
		case !pod.running:
		case pod.claim != nil:
			out = append(out, hold(pod.claim.Status.Allocation.Devices.Results[0].Device, inventory.FrontDRA, string(pod.claim.UID)))
		default:
			for _, id := range pod.devices {
				device, _, _ := strings.Cut(id, "::")
				out = append(out, hold(device, inventory.FrontDevicePlugin, modelDriver+"/"+id))
			}
		}
	}
	return out
}

// violation says what must never be, or is empty.
func (m *model) violation() string {
	holders := m.holders()
	users := make(map[inventory.ID]map[string]bool)
	for _, one := range holders {
		for _, other := range holders {
			if one.Front == inventory.FrontDevicePlugin && other.Front == inventory.FrontDRA && excludes(one.Device, other.Device) {
				return fmt.Sprintf("%s has %s, and claim %s has %s", one.User, one.Device, other.User, other.Device)
			}
		}
		if one.Front == inventory.FrontDRA {
			if users[one.Device] == nil {
				users[one.Device] = make(map[string]bool)
			}
			users[one.Device][one.User] = true
			if device := m.in.Device(one.Device); len(users[one.Device]) > max(device.Shares, 1) {
				return fmt.Sprintf("device %s has too many claims: %v", one.Device, users[one.Device])
			}
		}
	}
	stored, known := m.stored()
	if !known {
		return ""
	}
	for _, holder := range holders {
		if !slices.ContainsFunc(stored, func(h inventory.Hold) bool {
			return h.Device == holder.Device && h.Front == holder.Front && h.User == holder.User
		}) {
			return fmt.Sprintf("the ledger does not know that %s %s has %s", holder.Front, holder.User, holder.Device)
		}
	}
	files, err := os.ReadDir(m.options.CDIDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.t.Fatal(err)
	}
	for _, file := range files {
		claim := strings.TrimSuffix(strings.TrimPrefix(file.Name(), modelDriver+"_"), ".json")
		if !slices.ContainsFunc(stored, func(h inventory.Hold) bool { return h.Front == inventory.FrontDRA && h.User == claim }) {
			return fmt.Sprintf("claim %s has a CDI file, and the ledger does not know it", claim)
		}
	}
	return ""
}

// stored are the holds in the checkpoint, if it knows all users.
func (m *model) stored() (holds []inventory.Hold, known bool) {
	if m.store.damaged || m.store.content == nil {
		return nil, false
	}
	var state struct {
		Known []inventory.Front
		Holds []inventory.Hold
	}
	if err := json.Unmarshal(m.store.content, &state); err != nil {
		m.t.Fatal(err)
	}
	return state.Holds, len(state.Known) == len(inventory.Fronts)
}

// excludes tells whether two fronts must not hand out these devices at the same time.
func excludes(a, b inventory.ID) bool {
	partitions := map[string]bool{"whole": true, "half": true}
	return a == b || partitions[a.Device] && partitions[b.Device]
}

// describe is for messages.
func (m *model) describe() string {
	last := m.log[max(0, len(m.log)-60):]
	return fmt.Sprintf("seed %d, after %d steps, the last of which are:\n%s", m.seed, len(m.log), strings.Join(last, "\n"))
}
