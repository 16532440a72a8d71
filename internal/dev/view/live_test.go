// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package view_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
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
	plane := startPlane(t)
	client := kubernetes.NewForConfigOrDie(plane.Config())
	addNode(t, client, "n1")
	allowReading(t, client, "reader")
	o := open(t, serve(t, "--kubeconfig", plane.Kubeconfig(), "--as", "reader", "-A"), 1280, 800, chromedp.ActionFunc(impatient))
	o.untilText(".legend", "1 node, 2 devices")
	o.untilText(".status", "live")
	if notes := value[string](o, `document.querySelector(".notes").textContent`); notes != "" {
		t.Errorf("a user who may read everything gets the notes %q", notes)
	}

	if n := value[int](o, "glows"); n != 0 {
		t.Errorf("%d times something has flashed, and nothing has changed", n)
	}
	addNode(t, client, "n2")
	o.untilText(".legend", "2 nodes, 4 devices")
	o.until("glows > 0")
	o.until("performance.now() - glowed > 500") // once
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

	o.keepsPlace(client)
	if n := o.loaded("/api/picture"); n != 1 {
		t.Errorf("the whole picture was loaded %d times: want changes only", n)
	}
	o.writesNothing(client)

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

	// What is older than fifteen minutes is forgotten.
	o.until(`document.getElementById("scrub").max > 1`)
	o.run(chromedp.Evaluate(`later = 15 * 60_000 + 1`, nil))
	addNode(t, client, "n5")
	o.untilText(".legend", "5 nodes, 10 devices")
	o.until(`document.getElementById("scrub").max === "1"`)

	restricted := asUser(t, client, plane)
	o = open(t, serve(t, "--kubeconfig", restricted, "-n", "default"), 1280, 800)
	o.untilText(".notes", "notes")
	o.until(`document.querySelector(".notes").textContent.includes("list nodes: not permitted: they are left out")`)
	o.until(`document.querySelector(".notes").textContent.includes("list resourceclaims: not permitted in all namespaces: those of namespace default are looked at")`)
	o.untilText(".legend", "0 nodes, 10 devices")
}

// startPlane starts an API server.
func startPlane(t *testing.T) *controlplane.ControlPlane {
	t.Helper()
	binaries, err := controlplane.BinariesIn("bin")
	if err != nil {
		t.Fatal(err)
	}
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Binaries: binaries, APIServerOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	return plane
}

// writesNothing tries a what-if and compares what is in the cluster before and after.
func (o *tab) writesNothing(client kubernetes.Interface) {
	o.Helper()
	before := objectsOf(o.T, client)
	o.click("What if")
	o.fill("Change", "drain")
	o.fill("Node", "n2")
	o.click("Try")
	o.untilText(".whatif [role=status]", "dray simulate drain n2")
	if after := objectsOf(o.T, client); after != before {
		o.Errorf("a what-if has changed the cluster: it was\n%s\nand is\n%s", before, after)
	}
	o.click("Back to what is")
	o.click("Map")
}

// keepsPlace changes the cluster while somebody is at a pod that waits, and then at its explanation.
func (o *tab) keepsPlace(client kubernetes.Interface) {
	o.Helper()
	const key = "wait/ResourceClaim/default/waits"
	atEntry := `document.activeElement.dataset.key === "` + key + `"`
	pend(o.T, client, "waits")
	o.until(`document.querySelector("[data-key='` + key + `']") !== null`)
	o.run(chromedp.KeyEvent(kb.Tab), chromedp.Evaluate(`document.querySelector("[data-key='`+key+`']").focus()`, nil))
	pend(o.T, client, "more")
	o.untilText(".waits", "default/more")
	o.until(atEntry)
	o.run(chromedp.KeyEvent(kb.Enter))
	o.untilText(".panel", "DeviceClass \"gpu\" does not exist")
	o.until(`document.activeElement.innerText === "ResourceClaim default/waits"`)
	o.run(chromedp.Evaluate(`window.asking = 0; new MutationObserver(() => { if (document.querySelector(".panel").innerText.includes("Asking why")) asking++; })
		.observe(document.querySelector(".panel"), {childList: true, subtree: true})`, nil))
	pend(o.T, client, "yet-more")
	o.untilText(".waits", "default/yet-more")
	o.until(`document.activeElement.innerText === "ResourceClaim default/waits"`)
	if n := value[int](o, "asking"); n > 0 {
		o.Error("the explanation goes away while it is asked for again")
	}
	o.run(chromedp.KeyEvent(kb.Escape))
	o.until(`document.querySelector(".panel").hidden`)
	o.until(atEntry)
}

// loaded is how often the page has loaded a path.
func (o *tab) loaded(path string) int {
	o.lock.Lock()
	defer o.lock.Unlock()
	n := 0
	for _, asked := range o.asked {
		if strings.Contains(asked, path) {
			n++
		}
	}
	return n
}

// objectsOf are the objects that a page is about, as JSON.
func objectsOf(t *testing.T, client kubernetes.Interface) string {
	t.Helper()
	ctx := t.Context()
	nodes, err1 := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	pods, err2 := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	claims, err3 := client.ResourceV1().ResourceClaims("").List(ctx, metav1.ListOptions{})
	slices, err4 := client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{})
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal([]any{nodes.Items, pods.Items, claims.Items, slices.Items})
	if err != nil {
		t.Fatal(err)
	}
	return string(encoded)
}

// impatient makes a minute pass in a moment for a page, and time as late as a test wants. It keeps the streams of events, and counts
// what glows.
func impatient(ctx context.Context) error {
	_, err := page.AddScriptToEvaluateOnNewDocument(`
		const now = Date.now; window.later = 0; Date.now = () => now() + later;
		const stroke = CanvasRenderingContext2D.prototype.strokeRect; window.glows = 0; window.glowed = 0;
		CanvasRenderingContext2D.prototype.strokeRect = function (...r) { if (this.lineWidth === 3) { glows++; glowed = performance.now(); } stroke.apply(this, r); };
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

// pend creates a claim that no class serves.
func pend(t *testing.T, client kubernetes.Interface, name string) *resourceapi.ResourceClaim {
	t.Helper()
	claim, err := client.ResourceV1().ResourceClaims("default").Create(t.Context(), &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{
			{Name: "r", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu"}},
		}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return claim
}

// hold allocates a device to a claim, as a scheduler does.
func hold(t *testing.T, client kubernetes.Interface, pool, device string) {
	t.Helper()
	claim := pend(t, client, "held")
	claim.Status.Allocation = &resourceapi.AllocationResult{
		AllocationTimestamp: ptr.To(metav1.Now()),
		Devices:             resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{Request: "r", Driver: "gpu.example.com", Pool: pool, Device: device}}},
	}
	if _, err := client.ResourceV1().ResourceClaims("default").UpdateStatus(t.Context(), claim, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// allowReading lets a user read everything, and write nothing.
func allowReading(t *testing.T, client kubernetes.Interface, user string) {
	t.Helper()
	_, err := client.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{"*"}, Resources: []string{"*"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user}, Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
	}, metav1.CreateOptions{})
	if err != nil {
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
