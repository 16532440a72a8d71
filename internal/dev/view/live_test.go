package view_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/internal/dev/controlplane"
)

// The page follows a real API server: what changes is there without a reload, an outage is said and gets over, the last
// minutes can be seen again, and nothing is written.
func TestLive(t *testing.T) {
	ctx := t.Context()
	binaries, err := controlplane.BinariesIn("bin")
	if err != nil {
		t.Fatal(err)
	}
	plane, err := controlplane.Start(ctx, controlplane.Options{Binaries: binaries, APIServerOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	client := kubernetes.NewForConfigOrDie(plane.Config())
	addNode(t, client, "n1")
	o := open(t, serve(t, "--kubeconfig", plane.Kubeconfig(), "-A"), 1280, 800, chromedp.ActionFunc(impatient))
	o.untilText(".legend", "1 node, 2 devices")
	o.untilText(".status", "live")

	addNode(t, client, "n2")
	o.untilText(".legend", "2 nodes, 4 devices")
	o.click("Usage")
	o.sameTable([][]string{{"All", "4", "0", "4", "0"}, {"nobody", "4", "0", "4", "0"}})
	hold(t, client, "n2", "gpu-1")
	o.sameTable([][]string{{"All", "4", "1", "3", "0"}, {"default", "1", "1", "0", "0"}, {"nobody", "3", "0", "3", "0"}})
	o.click("Map")
	o.untilText(".legend", "held 1")
	o.until(`!document.querySelector(".scrub").hidden`)
	o.run(chromedp.Evaluate(`(() => { const s = document.getElementById("scrub"); s.value = 0; s.dispatchEvent(new Event("input", {bubbles: true})); })()`, nil))
	o.untilText(".legend", "1 node, 2 devices")
	o.click("Now")
	o.untilText(".legend", "2 nodes, 4 devices")

	if err := plane.KillAPIServer(); err != nil {
		t.Fatal(err)
	}
	o.untilText(".status", "The cluster does not answer")
	if err := plane.StartAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	addNode(t, client, "n3")
	o.untilText(".legend", "3 nodes, 6 devices")
	o.untilText(".status", "live")

	o.turnAway()
	addNode(t, client, "n4")
	o.comeBack()
	o.untilText(".legend", "4 nodes, 8 devices")

	restricted := asUser(t, client, plane)
	o = open(t, serve(t, "--kubeconfig", restricted, "-n", "default"), 1280, 800)
	o.untilText(".notes", "notes")
	o.until(`document.querySelector(".notes").textContent.includes("list nodes: not permitted: they are left out")`)
	o.until(`document.querySelector(".notes").textContent.includes("list resourceclaims: not permitted in all namespaces: those of namespace default are looked at")`)
	o.untilText(".legend", "0 nodes, 8 devices")
}

// impatient makes a minute pass in a moment for a page, and keeps its streams of events.
func impatient(ctx context.Context) error {
	_, err := page.AddScriptToEvaluateOnNewDocument(`
		const wait = setTimeout; window.setTimeout = (act, time) => wait(act, time === 60000 ? 10 : time);
		window.streams = []; window.EventSource = class extends EventSource { constructor(...where) { super(...where); streams.push(this); } };`).Do(ctx)
	return err
}

// turnAway hides a page for longer than it follows: it leaves its connection to others.
func (o *tab) turnAway() {
	o.Helper()
	o.until(`streams.at(-1).readyState === EventSource.OPEN`)
	o.run(chromedp.Evaluate(`Object.defineProperty(document, "hidden", {value: true, configurable: true}); document.dispatchEvent(new Event("visibilitychange"))`, nil))
	o.until(`streams.every((s) => s.readyState === EventSource.CLOSED)`)
}

// comeBack looks at a page again, which goes on with one stream.
func (o *tab) comeBack() {
	o.Helper()
	o.run(chromedp.Evaluate(`delete document.hidden; document.dispatchEvent(new Event("visibilitychange"))`, nil))
	o.until(`streams.filter((s) => s.readyState === EventSource.OPEN).length === 1`)
}

func addNode(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	if _, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	slice := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: "gpu.example.com", NodeName: &name, Pool: resourceapi.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: 1},
			Devices: []resourceapi.Device{{Name: "gpu-0"}, {Name: "gpu-1"}},
		},
	}
	if _, err := client.ResourceV1().ResourceSlices().Create(t.Context(), slice, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// hold allocates a device to a claim, as a scheduler does.
func hold(t *testing.T, client kubernetes.Interface, pool, device string) {
	t.Helper()
	claims := client.ResourceV1().ResourceClaims("default")
	claim, err := claims.Create(t.Context(), &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "held"},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{
			{Name: "r", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu"}},
		}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	claim.Status.Allocation = &resourceapi.AllocationResult{
		AllocationTimestamp: ptr.To(metav1.Now()),
		Devices:             resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{Request: "r", Driver: "gpu.example.com", Pool: pool, Device: device}}},
	}
	if _, err := claims.UpdateStatus(t.Context(), claim, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// asUser writes a kubeconfig of a user who may list devices everywhere, and claims and pods in one namespace.
func asUser(t *testing.T, client kubernetes.Interface, plane *controlplane.ControlPlane) string {
	t.Helper()
	const user = "viewer"
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}}
	verbs := []string{"get", "list", "watch"}
	wide := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		Rules:      []rbacv1.PolicyRule{{Verbs: verbs, APIGroups: []string{resourceapi.GroupName}, Resources: []string{"resourceslices", "deviceclasses"}}},
	}
	narrow := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		Rules: []rbacv1.PolicyRule{
			{Verbs: verbs, APIGroups: []string{resourceapi.GroupName}, Resources: []string{"resourceclaims", "resourceclaimtemplates"}},
			{Verbs: verbs, APIGroups: []string{""}, Resources: []string{"pods"}},
		},
	}
	rbac := client.RbacV1()
	create := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	_, err := rbac.ClusterRoles().Create(t.Context(), wide, metav1.CreateOptions{})
	create("cluster role", err)
	_, err = rbac.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user}, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
	}, metav1.CreateOptions{})
	create("cluster role binding", err)
	_, err = rbac.Roles("default").Create(t.Context(), narrow, metav1.CreateOptions{})
	create("role", err)
	_, err = rbac.RoleBindings("default").Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user}, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
	}, metav1.CreateOptions{})
	create("role binding", err)
	config, err := plane.ConfigFor(user)
	create("identity", err)
	return kubeconfigOf(t, config)
}

func kubeconfigOf(t *testing.T, from *rest.Config) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: from.Host, CertificateAuthorityData: from.CAData}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{ClientCertificateData: from.CertData, ClientKeyData: from.KeyData}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	path := filepath.Join(t.TempDir(), "config")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}
