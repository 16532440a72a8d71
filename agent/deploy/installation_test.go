package deploy_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	dra "k8s.io/kubelet/pkg/apis/dra/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/internal/fakekubelet"
	"github.com/dray-project/dray/agent/internal/leakcheck"
	"github.com/dray-project/dray/agent/internal/shortdir"
	"github.com/dray-project/dray/internal/controlplane"
	"github.com/dray-project/dray/internal/install"
)

const (
	patience = 3 * time.Minute
	nodeName = "node-1"
	driver   = "pci.example.com" // of the manifests
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// installation is an agent that runs as its manifests say: with the arguments of the
// DaemonSet, and a token of its ServiceAccount that is bound to a pod on the node. The
// container is missing, and kubelet is played.
type installation struct {
	plane    *controlplane.ControlPlane
	client   kubernetes.Interface // the administrator's
	objects  []*unstructured.Unstructured
	recorder *install.Recorder
	pod      *corev1.Pod // of the agent

	folder  string // kubelet's
	watcher *fakekubelet.PluginWatcher
	running *exec.Cmd
}

// TestInstallation goes with the agent through all that needs a permission, and compares
// what it asked of the API server with what it is allowed.
func TestInstallation(t *testing.T) {
	i := newInstallation(t)
	for _, act := range []struct {
		name string
		play func(*testing.T)
	}{
		{"every variant is valid", i.dryRun},
		{"install", i.install},
		{"publish", i.publish},
		{"prepare a claim", i.prepare},
		{"devices go", i.shrink},
		{"start with a damaged ledger", i.damage},
		{"exactly these permissions", i.comparePermissions},
		{"slices of other nodes", i.writeSlices},
		{"status of devices needs its permission", i.withholdDriver},
	} {
		if !t.Run(act.name, act.play) {
			return
		}
	}
}

func newInstallation(t *testing.T) *installation {
	t.Helper()
	programs, err := controlplane.BinariesIn(binaries)
	if err != nil {
		t.Fatalf("%v; run make controlplane first", err)
	}
	i := &installation{folder: shortdir.New(t), objects: rendered(t, "kustomize", "default")}
	i.plane, err = controlplane.Start(t.Context(), controlplane.Options{Binaries: programs, Scheduler: controlplane.Dray})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := i.plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	if i.client, err = kubernetes.NewForConfig(i.plane.Config()); err != nil {
		t.Fatal(err)
	}
	if i.recorder, err = install.Record(i.plane); err != nil {
		t.Fatal(err)
	}
	i.recorder.Implied = func(p install.Permission) []install.Permission {
		if p.Resource != "resourceclaims/status" {
			return nil
		}
		// The only thing that a driver changes there is status.devices.
		return []install.Permission{{Verb: "associated-node:" + p.Verb, Group: p.Group, Resource: "resourceclaims/driver", Name: driver}}
	}
	t.Cleanup(func() {
		if err := i.recorder.Close(); err != nil {
			t.Error(err)
		}
	})
	i.playKubelet(t)
	return i
}

// playKubelet serves and looks at the sockets that a kubelet does.
func (i *installation) playKubelet(t *testing.T) {
	t.Helper()
	for _, name := range []string{"plugins_registry", "device-plugins", "pod-resources"} {
		if err := os.MkdirAll(filepath.Join(i.folder, name), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	kubelet, err := fakekubelet.Start(filepath.Join(i.folder, "device-plugins"), fakekubelet.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kubelet.Kill)
	if err := kubelet.ServePodResources(filepath.Join(i.folder, "pod-resources", "kubelet.sock")); err != nil {
		t.Fatal(err)
	}
	if i.watcher, err = fakekubelet.StartPluginWatcher(filepath.Join(i.folder, "plugins_registry"), ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(i.watcher.Kill)
}

func (i *installation) dryRun(t *testing.T) {
	applier, err := install.NewApplier(i.plane.Config())
	if err != nil {
		t.Fatal(err)
	}
	for name, variant := range variants {
		for _, object := range rendered(t, variant...) {
			if err := applier.Apply(t.Context(), object, metav1.DryRunAll); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func (i *installation) install(t *testing.T) {
	applier, err := install.NewApplier(i.plane.Config())
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range i.objects {
		if err := applier.Apply(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	room := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("4Gi"), corev1.ResourcePods: resource.MustParse("10")}
	_, err = i.client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: nodeName},
		Status:     corev1.NodeStatus{Capacity: room, Allocatable: room, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// What the DaemonSet's controller and the scheduler would do.
	template := as[appsv1.DaemonSet](t, i.objects, "DaemonSet").Spec.Template
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "dray-agent-1", Namespace: "kube-system", Labels: template.Labels}, Spec: template.Spec}
	pod.Spec.NodeName = nodeName
	i.pod = eventually(t, "the agent's pod", func(ctx context.Context) (*corev1.Pod, error) {
		return i.client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	})
	// The pod that kubelet reports. The agent believes that devices are free once it knows all pods of kubelet.
	reported := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: metav1.NamespaceDefault},
		Spec:       corev1.PodSpec{NodeName: nodeName, Containers: []corev1.Container{{Name: "main", Image: "none"}}},
	}
	reported = eventually(t, "the pod that kubelet reports", func(ctx context.Context) (*corev1.Pod, error) {
		return i.client.CoreV1().Pods(reported.Namespace).Create(ctx, reported, metav1.CreateOptions{})
	})
	reported.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: ptr.To(metav1.Now())}
	if _, err := i.client.CoreV1().Pods(reported.Namespace).UpdateStatus(t.Context(), reported, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// eventually repeats an attempt until it succeeds.
func eventually[T any](t *testing.T, what string, attempt func(context.Context) (T, error)) T {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		result, err := attempt(t.Context())
		if err == nil {
			return result
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// token is what kubelet mounts into the agent's pod.
func (i *installation) token(t *testing.T) string {
	t.Helper()
	request, err := i.client.CoreV1().ServiceAccounts(i.pod.Namespace).CreateToken(t.Context(), i.pod.Spec.ServiceAccountName, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: i.pod.Name, UID: i.pod.UID}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// start starts an agent on simulated hardware, with further variables of the environment.
func (i *installation) start(t *testing.T, environment ...string) {
	t.Helper()
	file := clientcmdapi.NewConfig()
	file.Clusters["cluster"] = &clientcmdapi.Cluster{Server: i.recorder.Address(), CertificateAuthorityData: i.plane.Config().CAData}
	file.AuthInfos["account"] = &clientcmdapi.AuthInfo{Token: i.token(t)}
	file.Contexts["context"] = &clientcmdapi.Context{Cluster: "cluster", AuthInfo: "account"}
	file.CurrentContext = "context"
	kubeconfig := filepath.Join(i.folder, "kubeconfig")
	if err := clientcmd.WriteToFile(*file, kubeconfig); err != nil {
		t.Fatal(err)
	}
	var arguments []string
	for _, argument := range i.pod.Spec.Containers[0].Args {
		// What differs outside of the container.
		if !strings.HasPrefix(argument, "--sysfs=") && !strings.HasPrefix(argument, "--driver=") && !strings.HasPrefix(argument, "--listen=") {
			arguments = append(arguments, argument)
		}
	}
	arguments = append(arguments, "--simulate="+filepath.Join(i.folder, "hardware.yaml"), "--listen=", "--kubeconfig="+kubeconfig,
		"--kubelet-dir="+i.folder, "--cdi-dir="+filepath.Join(i.folder, "cdi"))
	program, err := filepath.Abs(filepath.Join(binaries, "dray-agent"))
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(i.folder, fmt.Sprintf("log-%d", time.Now().UnixNano())))
	if err != nil {
		t.Fatal(err)
	}
	agent := exec.Command(program, arguments...)
	agent.Env = append(os.Environ(), "NODE_NAME="+nodeName, "POD_UID="+string(i.pod.UID))
	agent.Env = append(agent.Env, environment...)
	agent.Stdout, agent.Stderr = log, log
	if err := errors.Join(agent.Start(), log.Close()); err != nil {
		t.Fatal(err)
	}
	i.running = agent
}

// stop ends the agent, and quotes its log if the test has failed.
func (i *installation) stop(t *testing.T) {
	t.Helper()
	if i.running == nil {
		return
	}
	if err := i.running.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := i.running.Wait(); err != nil {
		t.Errorf("the agent ended with %v:\n%s", err, i.log(t))
	}
	i.running = nil
}

func (i *installation) log(t *testing.T) string {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(i.folder, "log-*"))
	if err != nil || len(logs) == 0 {
		return fmt.Sprintf("no log (%v)", err)
	}
	text, err := os.ReadFile(slices.Max(logs))
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-8000):])
}

// hardware makes the node have a number of devices. A ResourceSlice takes 128.
func (i *installation) hardware(t *testing.T, count int) {
	t.Helper()
	writeFile(t, i.folder, "hardware.yaml", fmt.Sprintf("groups:\n- {driver: %s, name: dev, count: %d, type: dev}\n", driver, count))
}

// slices are how many ResourceSlices there are, with so many devices.
func (i *installation) slices(t *testing.T, want, devices int) {
	t.Helper()
	eventually(t, "ResourceSlices", func(ctx context.Context) (any, error) {
		list, err := i.client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		count := 0
		for _, slice := range list.Items {
			count += len(slice.Spec.Devices)
		}
		if len(list.Items) != want || count != devices {
			return nil, fmt.Errorf("%d slices with %d devices, want %d with %d; the log ends with\n%s", len(list.Items), count, want, devices, i.log(t))
		}
		return nil, nil
	})
}

func (i *installation) publish(t *testing.T) {
	i.hardware(t, 130)
	i.start(t)
	i.slices(t, 2, 130)
	eventually(t, "a list of pods", func(context.Context) (any, error) {
		if !slices.Contains(i.recorder.Needed(), install.Permission{Verb: "list", Resource: "pods"}) {
			return nil, fmt.Errorf("not among %v", i.recorder.Needed())
		}
		return nil, nil
	})
}

// prepare has a claim allocated, as for a pod on the node, and prepared by the agent.
func (i *installation) prepare(t *testing.T) {
	claim := i.allocated(t, "one")
	if _, err := i.watcher.Prepare(t.Context(), driver, &dra.Claim{Uid: string(claim.UID), Namespace: claim.Namespace, Name: claim.Name}); err != nil {
		t.Fatalf("%v; the log ends with\n%s", err, i.log(t))
	}
	eventually(t, "status.devices", func(ctx context.Context) (any, error) {
		claim, err := i.client.ResourceV1().ResourceClaims("default").Get(ctx, "one", metav1.GetOptions{})
		if err == nil && len(claim.Status.Devices) == 0 {
			err = fmt.Errorf("there is none; the log ends with\n%s", i.log(t))
		}
		return nil, err
	})
}

// allocated creates a claim for the first device, with its allocation: schedulers are tested elsewhere.
func (i *installation) allocated(t *testing.T, name string) *resourceapi.ResourceClaim {
	t.Helper()
	claims := i.client.ResourceV1().ResourceClaims("default")
	claim, err := claims.Create(t.Context(), &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{
			{Name: "device", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "any"}},
		}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	claim.Status = resourceapi.ResourceClaimStatus{
		Allocation: &resourceapi.AllocationResult{
			Devices: resourceapi.DeviceAllocationResult{
				Results: []resourceapi.DeviceRequestAllocationResult{{Request: "device", Driver: driver, Pool: nodeName, Device: "dev-0"}},
			},
			// The API server takes from it which node the claim is associated with.
			NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{nodeName}}},
			}}},
		},
		ReservedFor: []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "none", UID: "none"}},
	}
	claim, err = claims.UpdateStatus(t.Context(), claim, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return claim
}

func (i *installation) shrink(t *testing.T) {
	i.hardware(t, 5)
	i.slices(t, 1, 5)
}

// damage makes the agent's files worthless, and starts it with informers that list before
// they watch, as they do when an API server cannot do both in one.
func (i *installation) damage(t *testing.T) {
	i.stop(t)
	var damaged []string
	err := filepath.WalkDir(filepath.Join(i.folder, "plugins"), func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() && strings.Contains(path, "ledger") && filepath.Ext(path) == ".json" {
			damaged = append(damaged, path)
			err = os.WriteFile(path, []byte("{"), 0o600)
		}
		return err
	})
	if err != nil || len(damaged) == 0 {
		t.Fatalf("damaged %v (%v)", damaged, err)
	}
	i.hardware(t, 6)
	i.start(t, "KUBE_FEATURE_WatchListClient=false")
	i.slices(t, 1, 6)
	i.stop(t)
}

// comparePermissions finds what is missing and what is too much.
func (i *installation) comparePermissions(t *testing.T) {
	allowed := install.Granted(as[rbacv1.ClusterRole](t, i.objects, "ClusterRole").Rules...)
	// No device has two users here. That the agent then writes an Event is tested in package nodedriver.
	needed := append(i.recorder.Needed(), install.Permission{Verb: "create", Resource: "events"}, install.Permission{Verb: "patch", Resource: "events"})
	lacking, idle := install.Compare(allowed, needed)
	if len(lacking) > 0 {
		t.Errorf("needed, and not allowed: %v", lacking)
	}
	if len(idle) > 0 {
		t.Errorf("allowed, and never needed: %v", idle)
	}
	if refused := i.recorder.Refused(); len(refused) > 0 {
		t.Errorf("refused by the API server: %v", refused)
	}
}

// account is a client with a token of the agent's ServiceAccount.
func (i *installation) account(t *testing.T, token string) kubernetes.Interface {
	t.Helper()
	config := rest.AnonymousClientConfig(i.plane.Config())
	config.BearerToken = token
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// writeSlices writes slices with the agent's token, and with one of its ServiceAccount that is
// not bound to a pod.
func (i *installation) writeSlices(t *testing.T) {
	unbound, err := i.client.CoreV1().ServiceAccounts(i.pod.Namespace).CreateToken(t.Context(), i.pod.Spec.ServiceAccountName, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	slice := func(node string) *resourceapi.ResourceSlice {
		return &resourceapi.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: "slice-of-" + node},
			Spec: resourceapi.ResourceSliceSpec{
				Driver: "other.example.com", NodeName: ptr.To(node), Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
			},
		}
	}
	everywhere := slice("all")
	everywhere.Spec.NodeName, everywhere.Spec.AllNodes = nil, ptr.To(true)
	bound := i.account(t, i.token(t)).ResourceV1().ResourceSlices()
	for name, test := range map[string]struct {
		slice *resourceapi.ResourceSlice
		token string
		want  string
	}{
		"another node": {slice("node-2"), i.token(t), `dray-agent on node node-1 must not write a ResourceSlice of node "node-2"`},
		"all nodes":    {everywhere, i.token(t), `must not write a ResourceSlice of node ""`},
		"no pod":       {slice(nodeName), unbound.Status.Token, "does not name a node"},
	} {
		_, err := i.account(t, test.token).ResourceV1().ResourceSlices().Create(t.Context(), test.slice, metav1.CreateOptions{})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: create: error %v, want %q", name, err, test.want)
		}
	}
	theirs, err := i.client.ResourceV1().ResourceSlices().Create(t.Context(), slice("node-2"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	theirs.Spec.Pool.Generation++
	_, updateErr := bound.Update(t.Context(), theirs, metav1.UpdateOptions{})
	for verb, err := range map[string]error{"update": updateErr, "delete": bound.Delete(t.Context(), theirs.Name, metav1.DeleteOptions{})} {
		if err == nil || !strings.Contains(err.Error(), "must not write a ResourceSlice of node") {
			t.Errorf("%s of the slice of another node: error %v", verb, err)
		}
	}
	ours, err := bound.Create(t.Context(), slice(nodeName), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := bound.Delete(t.Context(), ours.Name, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

// withholdDriver shows that the one permission which no request names is needed.
func (i *installation) withholdDriver(t *testing.T) {
	roles := i.client.RbacV1().ClusterRoles()
	role, err := roles.Get(t.Context(), "dray-agent", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	role.Rules = slices.DeleteFunc(role.Rules, func(rule rbacv1.PolicyRule) bool { return slices.Contains(rule.Resources, "resourceclaims/driver") })
	if _, err := roles.Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	claim := i.account(t, i.token(t)).ResourceV1().ResourceClaims("default")
	eventually(t, "a refusal", func(ctx context.Context) (any, error) {
		_, err := claim.Patch(ctx, "one", "application/merge-patch+json", []byte(`{"status":{"devices":[]}}`), metav1.PatchOptions{}, "status")
		if err == nil || !apierrors.IsForbidden(err) && !strings.Contains(err.Error(), "resourceclaims/driver") {
			return nil, fmt.Errorf("error %w", errors.Join(err, errors.New("want one about resourceclaims/driver")))
		}
		return nil, nil
	})
}
