// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/cmd/dray/internal/cluster"
	"github.com/dray-project/dray/cmd/dray/internal/workload"
)

// By is the criterion by which devices are counted. An attribute is "attribute=NAME".
type By string

// Values of By.
const (
	ByNamespace By = "namespace"
	// ByWorkload is the object that made the pods, NAMESPACE/KIND/NAME. A pod without such an
	// object, or a claim without pods, is itself the workload.
	ByWorkload By = "workload"
	ByNode     By = "node"
	ByClass    By = "class"
	ByDriver   By = "driver"
	// ByAttribute is followed by = and the name of an attribute. A name without a domain has that
	// of each driver.
	ByAttribute By = "attribute"
)

// Bys returns all values of By.
func Bys() []By { return []By{ByNamespace, ByWorkload, ByNode, ByClass, ByDriver, ByAttribute} }

// ParseBy parses a value of By.
func ParseBy(text string) (By, error) {
	name, attribute, found := strings.Cut(text, "=")
	by := By(name)
	switch {
	case !slices.Contains(Bys(), by):
		return "", fmt.Errorf("%q: want namespace, workload, node, class, driver or attribute=NAME", text)
	case found != (by == ByAttribute) || found && attribute == "":
		return "", fmt.Errorf("%q: want attribute=NAME, and a name for nothing else", text)
	}
	return By(text), nil
}

func (b By) attribute() (string, bool) { return strings.CutPrefix(string(b), string(ByAttribute)+"=") }

// Counts has numbers of devices. Held, Free and Stranded add up to Devices.
type Counts struct {
	Devices int `json:"devices"`
	Held    int `json:"held"`
	// Shares is the number of held devices that can be shared with another claim.
	Shares   int `json:"shares,omitempty"`
	Free     int `json:"free"`
	Stranded int `json:"stranded"`
	// Causes counts the stranded devices by cause. Each device has one cause.
	Causes map[Cause]int `json:"causes,omitempty"`
}

func (c *Counts) add(d *Device) {
	c.Devices++
	switch d.Is {
	case Held:
		c.Held++
		if d.Shares {
			c.Shares++
		}
	case Free:
		c.Free++
	case Stranded:
		c.Stranded++
		if c.Causes == nil {
			c.Causes = make(map[Cause]int)
		}
		c.Causes[d.Cause]++
	}
}

// Row has the counts of one namespace, node, class, driver or value.
type Row struct {
	// Name is the name of the namespace, node, and so on. It is empty for devices without one.
	Name string `json:"name"`
	Counts
}

// Report has the counts of devices. By class, a device counts in the row of each class whose
// selectors it matches. By namespace or workload, it counts for each whose claims share it. Total
// counts each device once.
type Report struct {
	By    By     `json:"by"`
	Rows  []Row  `json:"items"`
	Total Counts `json:"total"`
}

// Of counts the devices of a cluster. Rows are sorted by name, with the empty name last. It returns
// an error for an invalid node selector of a slice.
func Of(c *cluster.Cluster, by By) (*Report, error) {
	pools, err := c.Inventory(nil)
	if err != nil {
		return nil, err
	}
	return Count(c, Inspect(c, pools), by), nil
}

// Count counts devices that Inspect returned.
func Count(c *cluster.Cluster, devices []Device, by By) *Report {
	report := &Report{By: by, Rows: []Row{}}
	rows := make(map[string]*Counts)
	classes := newClasses(c)
	for i := range devices {
		d := &devices[i]
		report.Total.add(d)
		for _, name := range namesOf(c, d, by, classes) {
			if rows[name] == nil {
				rows[name] = &Counts{}
			}
			rows[name].add(d)
		}
	}
	names := slices.SortedFunc(maps.Keys(rows), func(a, b string) int {
		switch {
		case a == "" || b == "":
			return cmp.Compare(b, a) // the empty name is last
		}
		return cmp.Compare(a, b)
	})
	for _, name := range names {
		report.Rows = append(report.Rows, Row{name, *rows[name]})
	}
	return report
}

// namesOf returns the names of the rows in which a device counts.
func namesOf(c *cluster.Cluster, d *Device, by By, classes *classes) []string {
	var names []string
	switch name, isAttribute := by.attribute(); {
	case isAttribute:
		value, _ := valueOf(d, resourceapi.FullyQualifiedName(name))
		names = append(names, value)
	case by == ByNamespace:
		for _, holder := range d.State.Holders {
			namespace, _, _ := strings.Cut(holder.Claim, "/")
			if !slices.Contains(names, namespace) {
				names = append(names, namespace)
			}
		}
	case by == ByWorkload:
		for _, holder := range d.State.Holders {
			names = append(names, workloadsOf(c, &holder)...)
		}
		slices.Sort(names)
		names = slices.Compact(names)
	case by == ByNode && len(d.Pool.Nodes) == 1:
		names = d.Pool.Nodes
	case by == ByNode && len(d.Pool.Nodes) > 1:
		names = []string{SeveralNodes}
	case by == ByDriver:
		names = []string{d.Pool.Driver}
	case by == ByClass:
		names = classes.of(d)
	}
	if len(names) == 0 {
		return []string{""}
	}
	return names
}

// workloadsOf returns the workloads of a claim's pods.
func workloadsOf(c *cluster.Cluster, holder *cluster.HolderState) []string {
	namespace, name, _ := strings.Cut(holder.Claim, "/")
	var names []string
	if claim := c.Claim(types.NamespacedName{Namespace: namespace, Name: name}); claim != nil {
		for _, consumer := range claim.Status.ReservedFor {
			names = append(names, namespace+"/"+workloadOf(c, namespace, consumer))
		}
	}
	if len(names) == 0 {
		return []string{namespace + "/resourceclaim/" + name}
	}
	return names
}

func workloadOf(c *cluster.Cluster, namespace string, consumer resourceapi.ResourceClaimConsumerReference) string {
	if consumer.APIGroup != "" || consumer.Resource != "pods" {
		return schema.GroupResource{Group: consumer.APIGroup, Resource: consumer.Resource}.String() + "/" + consumer.Name
	}
	if pod := c.Pod(types.NamespacedName{Namespace: namespace, Name: consumer.Name}); pod != nil {
		if maker := workload.MakerOf(pod); maker != "" {
			return maker
		}
	}
	return "pod/" + consumer.Name
}

// SeveralNodes is the name of the row of devices that several nodes reach.
const SeveralNodes = "(several nodes)"

// classes caches the classes of devices.
type classes struct {
	cluster *cluster.Cluster
	known   map[*cluster.DeviceState][]string
}

func newClasses(c *cluster.Cluster) *classes {
	return &classes{c, make(map[*cluster.DeviceState][]string)}
}

// of returns the classes whose selectors a device matches.
func (k *classes) of(d *Device) []string {
	names, known := k.known[d.State]
	if !known {
		names = k.cluster.ClassesOfDevice(d.Pool, d.State)
		k.known[d.State] = names
	}
	return names
}

func (k *classes) has(class string, d *Device) bool { return slices.Contains(k.of(d), class) }
