package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/cmd/dray/internal/cluster"
	"github.com/dray-project/dray/cmd/dray/internal/input"
	"github.com/dray-project/dray/cmd/dray/internal/render"
	"github.com/dray-project/dray/cmd/dray/internal/validation"
)

// programs is how many compiled expressions are kept.
const programs = 1024

// origin is what the persistent flags say: where objects come from and how they are
// to be understood.
type origin struct {
	program string
	streams Streams
	files   []string
	kube    *genericclioptions.ConfigFlags
	gates   *gatesFlag
	budget  int64
	verbose bool
}

func newOrigin(program string, streams Streams) *origin {
	kube := &genericclioptions.ConfigFlags{
		KubeConfig:   ptr.To(""),
		Context:      ptr.To(""),
		ClusterName:  ptr.To(""),
		AuthInfoName: ptr.To(""),
		Namespace:    ptr.To(""),
		Timeout:      ptr.To("0"),
	}
	return &origin{program: program, streams: streams, kube: kube, gates: newGatesFlag()}
}

func (o *origin) addFlags(flags *pflag.FlagSet) {
	flags.StringSliceVarP(&o.files, "filename", "f", nil,
		"file, folder (recursive) or - for standard input, instead of a cluster; may be repeated")
	o.kube.AddFlags(flags)
	o.gates.addTo(flags)
	flags.Int64Var(&o.budget, "budget", 0,
		fmt.Sprintf("search steps per node after which the answer is undecided (default %d)", allocator.DefaultBudget))
	flags.BoolVarP(&o.verbose, "verbose", "v", false, "name the selectors of classes in explanations; say on standard error what was read and ignored")
}

// terminal is where output for people goes.
func (o *origin) terminal() *render.Terminal {
	t := render.NewTerminal(o.streams.Out)
	t.Program, t.Verbose = o.program, o.verbose
	for _, file := range o.files {
		t.Flags += " -f " + file
	}
	return t
}

// namespace is what -n says, else "default" for files and that of the context for a
// cluster.
func (o *origin) namespace() string {
	if *o.kube.Namespace != "" || len(o.files) == 0 {
		if namespace, _, err := o.kube.ToRawKubeConfigLoader().Namespace(); err == nil {
			return namespace
		}
	}
	return corev1.NamespaceDefault
}

// namespaceGiven reports whether -n was used.
func (o *origin) namespaceGiven() bool { return *o.kube.Namespace != "" }

// load reads everything and builds the cluster.
func (o *origin) load(ctx context.Context) (*cluster.Cluster, error) {
	features := o.gates.features()
	cache := cel.NewCache(programs)
	objects, err := o.read(ctx, cache)
	if err != nil {
		return nil, err
	}
	o.describe(objects)
	return cluster.New(objects, cluster.Options{Features: features, Programs: cache, Budget: o.budget})
}

func (o *origin) read(ctx context.Context, cache *cel.Cache) (*input.Objects, error) {
	if len(o.files) > 0 {
		p := newProgress(o.streams.Err, "reading documents", -1)
		defer p.done()
		return input.Read(o.files, o.streams.In, input.Options{
			Namespace: o.namespace(),
			Validate:  validation.New(validation.Programs{Cache: cache}).Object,
			Step:      p.step,
		})
	}
	config, err := o.kube.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("no -f, and no cluster: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	p := newProgress(o.streams.Err, "reading the cluster", -1)
	defer p.done()
	return input.Live(ctx, client, func(string) { p.step() })
}

// describe says what was read if asked to.
func (o *origin) describe(objects *input.Objects) {
	if !o.verbose {
		return
	}
	counts := []string{
		render.Count(len(objects.Nodes), "Node"), render.Count(len(objects.Pods), "Pod"),
		render.Count(len(objects.Claims), "ResourceClaim"), render.Count(len(objects.Templates), "ResourceClaimTemplate"),
		render.Count(len(objects.Classes), "DeviceClass"), render.Count(len(objects.Slices), "ResourceSlice"),
		render.Count(len(objects.TaintRules), "DeviceTaintRule"),
	}
	fmt.Fprintf(o.streams.Err, "read: %s\n", strings.Join(counts, ", "))
	for _, kind := range slices.Sorted(maps.Keys(objects.Ignored)) {
		fmt.Fprintf(o.streams.Err, "ignored: %d of %s\n", objects.Ignored[kind], kind)
	}
}

// nodes are those to look at: all, or the one that is named.
func nodes(c *cluster.Cluster, name string) ([]*corev1.Node, error) {
	if name == "" {
		return c.Nodes, nil
	}
	node := c.Node(name)
	if node == nil {
		return nil, fmt.Errorf("--node %s: there is no such node", name)
	}
	return []*corev1.Node{node}, nil
}
