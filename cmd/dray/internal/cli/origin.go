// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/cmd/dray/internal/cluster"
	"github.com/dray-project/dray/cmd/dray/internal/input"
	"github.com/dray-project/dray/cmd/dray/internal/render"
	"github.com/dray-project/dray/cmd/dray/internal/validation"
)

// maxReported is the maximum number of errors or warnings that are printed.
const maxReported = 20

// programs is the size of the cache of compiled expressions.
const programs = 1024

// origin has the persistent flags: the source of objects, and options for reading them.
type origin struct {
	program string
	streams Streams
	files   []string
	kube    *genericclioptions.ConfigFlags
	gates   *gatesFlag
	budget  int64
	verbose bool
	// policy is the name of a device policy. topology has attributes in which the devices of a pod
	// should agree.
	policy   string
	topology []string
	// validate is one of the values of input.Findings.
	validate string
	// kustomization is the folder of a kustomization, or empty.
	kustomization string
	timeout       time.Duration
	// untranslated leaves objects of devmgmtproto.k8s.io as they are.
	untranslated bool
}

func newOrigin(program string, streams Streams) *origin {
	return &origin{program: program, streams: streams, kube: genericclioptions.NewConfigFlags(true), gates: newGatesFlag()}
}

func (o *origin) addFlags(flags *pflag.FlagSet) {
	flags.StringSliceVarP(&o.files, "filename", "f", nil,
		"file, folder (recursive) or - for standard input, instead of a cluster; may be repeated")
	flags.StringVarP(&o.kustomization, "kustomize", "k", "", "folder with a kustomization, instead of a cluster; may be used together with -f")
	flags.DurationVar(&o.timeout, "timeout", 0, "how long the command may take, as in 30s; 0 is for ever")
	o.kube.AddFlags(flags)
	// What help says goes into pages that others read: it must not have the home of who builds them.
	flags.Lookup("cache-dir").DefValue = "$HOME/.kube/cache"
	o.gates.addTo(flags)
	flags.StringVar(&o.validate, "validate", string(input.FindingsFail),
		"how to treat objects that an API server would refuse: strict (an error), warn (left out) or ignore (used as far as possible)")
	flags.Int64Var(&o.budget, "budget", 0,
		fmt.Sprintf("search steps per node after which the answer is undecided; 0 is the default, %d", allocator.DefaultBudget))
	flags.StringVar(&o.policy, "device-policy", "FirstFit",
		"which devices of a node are preferred: FirstFit (those that kube-scheduler takes), LeastWaste, Pack or Spread")
	flags.StringSliceVar(&o.topology, "topology", nil,
		"attribute of which the devices of a claim should have one value, as in resource.kubernetes.io/pcieRoot; may be repeated, the most important first")
	flags.BoolVarP(&o.verbose, "verbose", "v", false, "say on standard error what was read")
}

// check validates the flags. An empty value usually means that a script's variable is not set. That
// is an error, since the cluster of the kubeconfig is hardly what the user wants.
func (o *origin) check(flags *pflag.FlagSet) error {
	if o.timeout < 0 {
		return fmt.Errorf("--timeout %s: want 0 or more", o.timeout)
	}
	if o.budget < 0 {
		return fmt.Errorf("--budget %d: want 0 or more", o.budget)
	}
	if flags.Changed("filename") && (len(o.files) == 0 || slices.Contains(o.files, "")) {
		return errors.New("--filename: empty: want a file, a folder or -")
	}
	if flags.Changed("kustomize") && o.kustomization == "" {
		return errors.New("--kustomize: empty: want a folder")
	}
	known := []input.Findings{input.FindingsFail, input.FindingsWarn, input.FindingsIgnore}
	if slices.Contains(known, input.Findings(o.validate)) {
		return nil
	}
	return fmt.Errorf("--validate %s: want strict, warn or ignore", o.validate)
}

// checkChoice validates --device-policy and --topology, and sets the options.
func (o *origin) checkChoice(options *cluster.Options) (err error) {
	if options.Policy, err = allocator.PolicyNamed(o.policy); err != nil {
		return fmt.Errorf("--device-policy: %w", err)
	}
	for _, attribute := range o.topology {
		options.Topology = append(options.Topology, resourceapi.FullyQualifiedName(attribute))
	}
	if err := allocator.CheckTopology(options.Topology); err != nil {
		return fmt.Errorf("--%w", err)
	}
	return nil
}

// terminal returns the output for users.
func (o *origin) terminal(f *output) *render.Terminal {
	t := render.NewTerminal(o.streams.Out)
	t.Program, t.NoHeaders, t.Wide = o.program, f.noHeaders, f.format.Wide()
	if o.kustomization != "" {
		t.Flags += " -k " + o.kustomization
	}
	for _, file := range o.files {
		t.Flags += " -f " + file
	}
	return t
}

// namespace returns the value of -n. The default is "default" for files, and the namespace of the
// context for a cluster.
func (o *origin) namespace() string {
	if *o.kube.Namespace != "" || o.live() {
		if namespace, _, err := o.kube.ToRawKubeConfigLoader().Namespace(); err == nil {
			return namespace
		}
	}
	return corev1.NamespaceDefault
}

// namespaceGiven reports whether -n was used.
func (o *origin) namespaceGiven() bool { return *o.kube.Namespace != "" }

// live reports whether objects come from a cluster.
func (o *origin) live() bool { return len(o.files) == 0 && o.kustomization == "" }

// load reads everything and builds the cluster.
func (o *origin) load(ctx context.Context) (*cluster.Cluster, error) {
	options, err := o.options()
	if err != nil {
		return nil, err
	}
	objects, err := o.read(ctx, options)
	if err != nil {
		return nil, err
	}
	o.describe(objects)
	o.warnOfGroups(objects, options.GroupClaims)
	return unlessDone(ctx, func() (*cluster.Cluster, error) { return cluster.New(objects, options) })
}

// options returns the options of the cluster according to the flags.
func (o *origin) options() (cluster.Options, error) {
	switches, err := o.gates.switches()
	if err != nil {
		return cluster.Options{}, err
	}
	options := cluster.Options{
		Features: switches.Features, NoTaintRules: !switches.taintRules, ExtendedResources: switches.extendedResources,
		GroupClaims: switches.groupClaims, Programs: cel.NewCache(programs), Budget: o.budget,
	}
	return options, o.checkChoice(&options)
}

// unlessDone runs work that ignores ctx, such as reading from a pipe. If ctx is done first, it
// returns, and the work goes on in the background.
func unlessDone[T any](ctx context.Context, work func() (T, error)) (result T, err error) {
	ended := make(chan struct{})
	var value T
	var failure error
	go func() {
		defer close(ended)
		value, failure = work()
	}()
	select {
	case <-ended:
		return value, failure
	case <-ctx.Done():
		return result, context.Cause(ctx)
	}
}

func (o *origin) read(ctx context.Context, of cluster.Options) (*input.Objects, error) {
	if !o.live() {
		p := newProgress(o.streams.Err, "reading objects", -1)
		defer p.done()
		options := o.reading(of)
		options.Step, options.Kustomization = p.step, o.kustomization
		return unlessDone(ctx, func() (*input.Objects, error) { return input.Read(o.files, o.streams.In, options) })
	}
	client, config, err := o.client()
	if err != nil {
		return nil, err
	}
	p := newProgress(o.streams.Err, "reading the cluster", -1)
	defer p.done()
	objects, err := input.Live(ctx, client, o.namespace(), func(string) { p.step() })
	return objects, o.explainUnanswered(ctx, config, err)
}

// client returns a client of the cluster.
func (o *origin) client() (*kubernetes.Clientset, *rest.Config, error) {
	config, err := o.kube.ToRESTConfig()
	if err != nil {
		return nil, nil, fmt.Errorf("no -f, and no cluster: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	return client, config, err
}

// explainUnanswered adds a hint to an error of a request to the cluster.
func (o *origin) explainUnanswered(ctx context.Context, config *rest.Config, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = fmt.Errorf("%w: --request-timeout: %s have passed", err, config.Timeout)
	}
	if err != nil && o.noCluster() {
		return fmt.Errorf("no -f, and no cluster in a kubeconfig, so that %s was asked: %w", config.Host, err)
	}
	return err
}

// reading returns the options for reading manifests, for a cluster with these options.
func (o *origin) reading(options cluster.Options) input.Options {
	return input.Options{
		Namespace:    o.namespace(),
		Validate:     validation.New(validation.Programs{Cache: options.Programs}, options.Features.FractionalCapacityRange).Object,
		Findings:     input.Findings(o.validate),
		Untranslated: o.untranslated,
	}
}

// noCluster reports whether neither flags nor files nor a pod's environment name a cluster.
func (o *origin) noCluster() bool {
	raw, err := o.kube.ToRawKubeConfigLoader().RawConfig()
	return err == nil && len(raw.Clusters) == 0 && *o.kube.APIServer == "" && os.Getenv("KUBERNETES_SERVICE_HOST") == ""
}

// describe prints warnings about the input, what was ignored, and, with --verbose, what was read.
func (o *origin) describe(objects *input.Objects) {
	for i, warning := range objects.Warnings {
		if i == maxReported {
			o.streams.note("warning: and %d more", len(objects.Warnings)-i)
			break
		}
		o.streams.note("warning: %s", warning.Error())
	}
	if o.verbose {
		counts := []string{
			render.Count(len(objects.Nodes), "Node"), render.Count(len(objects.Pods), "Pod"),
			render.Count(len(objects.Controllers), "object") + " that make pods",
			render.Count(len(objects.Claims), "ResourceClaim"), render.Count(len(objects.Templates), "ResourceClaimTemplate"),
			render.Count(len(objects.Classes), "DeviceClass"), render.Count(len(objects.Slices), "ResourceSlice"),
			render.Count(len(objects.TaintRules), "DeviceTaintRule"),
		}
		o.streams.note("read: %s", strings.Join(counts, ", "))
	}
	if len(objects.Ignored) > 0 {
		var counts []string
		for _, kind := range slices.Sorted(maps.Keys(objects.Ignored)) {
			counts = append(counts, fmt.Sprintf("%d %s", objects.Ignored[kind], kind))
		}
		o.streams.note("ignored: %s", strings.Join(counts, ", "))
	}
}

// warnOfGroups warns of claims of PodGroups that no pod shares.
func (o *origin) warnOfGroups(objects *input.Objects, groupClaims bool) {
	for _, group := range objects.PodGroups {
		if len(group.Spec.ResourceClaims) > 0 && !groupClaims {
			o.streams.note("warning: PodGroup %s/%s: spec.resourceClaims has no effect, because the feature gate DRAWorkloadResourceClaims is off: each pod has claims of its own", group.Namespace, group.Name)
		}
	}
}

// nodes returns the node with a name, or all nodes if the name is empty.
func nodes(c *cluster.Cluster, name string) ([]*corev1.Node, error) {
	if name == "" {
		return c.Nodes, nil
	}
	node := c.Node(name)
	if node == nil {
		return nil, noSuchNode(c, name)
	}
	return []*corev1.Node{node}, nil
}

func noSuchNode(c *cluster.Cluster, name string) error {
	names := make([]string, len(c.Nodes))
	for i, node := range c.Nodes {
		names[i] = node.Name
	}
	return fmt.Errorf("--node %s: there is no such node%s", name, hint(name, names))
}

// output has the flags -o and --no-headers.
type output struct {
	text      string
	noHeaders bool
	format    render.Format
}

func (o *output) addTo(command *cobra.Command) {
	command.Flags().StringVarP(&o.text, "output", "o", "",
		"wide, json, yaml, name, jsonpath=TEMPLATE, go-template=TEMPLATE or custom-columns=HEADER:PATH,..., instead of text for people")
	command.Flags().BoolVar(&o.noHeaders, "no-headers", false, "leave the headers of tables out")
	// an error means that the flag does not exist
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(render.Formats(), cobra.ShellCompDirectiveNoFileComp))
}

func (o *output) parse() (err error) {
	o.format, err = render.ParseFormat(o.text)
	return err
}
