package diagnosis

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/parser"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator/explain"
	"github.com/dray-project/dray/cel"
)

// bySelector names a selector by its position, with its text for one of the claim's own,
// and says which values the rejected devices have.
func (d *Diagnosis) bySelector(r *request, rejection explain.Rejection) Finding {
	s := rejection.Selector
	if s == nil {
		return Finding{Devices: rejection.Devices, Phrase: rejection.Phrase()}
	}
	f := Finding{Devices: rejection.Devices, Phrase: fmt.Sprintf("not matching selectors[%d]", s.Position)}
	if rejection.OfClass() {
		f.Phrase = "not of class " + r.classes()
	}
	var rejected, others []device
	for _, one := range d.devices(func(device) bool { return true }) {
		if first := d.firstRejection(r, one); first != nil && *first == *s {
			rejected = append(rejected, one)
		} else {
			others = append(others, one)
		}
	}
	if rejection.OfClass() && len(others) > 0 {
		// Devices of other classes on the node are no news, unless it has no others.
		return f
	}
	f.Details = d.values(s.Expression, rejected)
	return f
}

// classes names those that may serve the request.
func (r *request) classes() string {
	names := make([]string, 0, len(r.offers))
	for i := range r.offers {
		if r.offers[i].class != nil {
			names = append(names, r.offers[i].class.Name)
		}
	}
	return strings.Join(names, " or ")
}

// inOrder lists the selectors in the order in which they are looked at.
func (o *offer) inOrder() []explain.Selector {
	var list []explain.Selector
	add := func(class string, selectors []resourceapi.DeviceSelector) {
		for i, selector := range selectors {
			if selector.CEL != nil {
				list = append(list, explain.Selector{Class: class, Position: i, Expression: selector.CEL.Expression})
			}
		}
	}
	if o.class != nil {
		add(o.class.Name, o.class.Spec.Selectors)
	}
	add("", o.selectors)
	return list
}

// firstRejection is the first selector that a device does not match; nil if it matches all. Of several
// classes it is that which comes closest, the first one with a device of the class.
func (d *Diagnosis) firstRejection(r *request, one device) *explain.Selector {
	var closest *explain.Selector
	for i := range r.offers {
		all := r.offers[i].inOrder()
		rejecting := slices.IndexFunc(all, func(s explain.Selector) bool { return !d.matches(s.Expression, one) })
		if rejecting < 0 {
			return nil
		}
		if closest == nil || closest.Class != "" && all[rejecting].Class == "" {
			closest = &all[rejecting]
		}
	}
	return closest
}

func (d *Diagnosis) matches(expression string, one device) bool {
	return d.cluster.Matches(expression, one.pool.Driver, one.Object)
}

// values says for each part of a selector that rejects devices which values they have.
func (d *Diagnosis) values(expression string, rejected []device) []string {
	var details []string
	for _, part := range conjuncts(expression) {
		program, err := d.programs.Selector(part)
		if err != nil {
			continue
		}
		failing := slices.DeleteFunc(slices.Clone(rejected), func(one device) bool { return d.matches(part, one) })
		rejected = slices.DeleteFunc(slices.Clone(rejected), func(one device) bool { return !d.matches(part, one) })
		if len(failing) == 0 {
			continue
		}
		details = append(details, part+": "+strings.Join(d.reads(program, failing), ", "))
	}
	return details
}

// reads says what devices have of that which an expression reads.
func (d *Diagnosis) reads(program *cel.Program, devices []device) []string {
	var phrases []string
	reads := program.Reads()
	if reads.Driver {
		phrases = append(phrases, tally("driver", devices, func(one device) string { return strconv.Quote(one.pool.Driver) }))
	}
	for _, name := range reads.Attributes {
		phrases = append(phrases, d.read(attributes, name, devices))
	}
	for _, name := range reads.Capacities {
		phrases = append(phrases, d.read(capacities, name, devices))
	}
	if len(phrases) == 0 {
		phrases = append(phrases, fmt.Sprintf("false for %d devices", len(devices)))
	}
	return phrases
}

func (d *Diagnosis) read(what kind, name cel.Name, devices []device) string {
	found := false
	values := tally(name.ID, devices, func(one device) string {
		value, has := what.value(one, name)
		found = found || has
		return value
	})
	if found {
		return values
	}
	if hint := d.missing(what, name, devices[0].pool.Driver); hint != "" {
		return hint
	}
	return fmt.Sprintf("the devices do not have the %s %s", what, name)
}

// tally lists the values of devices and how many have each, those of most devices first.
func tally(name string, devices []device, value func(device) string) string {
	const most = 4
	count := make(map[string]int)
	var order []string
	for _, one := range devices {
		v := value(one)
		if count[v] == 0 {
			order = append(order, v)
		}
		count[v]++
	}
	slices.SortStableFunc(order, func(a, b string) int { return count[b] - count[a] })
	if len(order) == 1 {
		return name + " is " + order[0]
	}
	var parts []string
	for _, v := range order[:min(most, len(order))] {
		parts = append(parts, fmt.Sprintf("%s (%d)", v, count[v]))
	}
	if len(order) > most {
		parts = append(parts, fmt.Sprintf("and %d other values", len(order)-most))
	}
	return name + " is " + strings.Join(parts, ", ")
}

// conjuncts splits an expression at its outermost "&&". An expression that cannot be split
// is one part.
func conjuncts(expression string) []string {
	env, err := celgo.NewEnv(celgo.EnableMacroCallTracking(), celgo.OptionalTypes())
	if err != nil {
		return []string{expression}
	}
	parsed, issues := env.Parse(expression)
	if issues.Err() != nil {
		return []string{expression}
	}
	var parts []string
	var split func(e ast.Expr)
	split = func(e ast.Expr) {
		if e.Kind() == ast.CallKind && e.AsCall().FunctionName() == operators.LogicalAnd {
			for _, operand := range e.AsCall().Args() {
				split(operand)
			}
			return
		}
		text, err := parser.Unparse(e, parsed.NativeRep().SourceInfo())
		if err != nil {
			text = expression
		}
		parts = append(parts, text)
	}
	split(parsed.NativeRep().Expr())
	if len(parts) == 1 || slices.Contains(parts, expression) {
		return []string{expression}
	}
	return parts
}
