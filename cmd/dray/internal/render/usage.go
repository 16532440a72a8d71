// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dray-project/dray/cmd/dray/internal/usage"
)

// usageDocument is the JSON output of dray usage.
type usageDocument struct {
	metav1.TypeMeta `json:",inline"`
	*usage.Report   `json:",inline"`
}

// UsageDocument returns a report as a document, with an item per row.
func UsageDocument(report *usage.Report) Document {
	d := Document{Value: usageDocument{metav1.TypeMeta{APIVersion: APIVersion, Kind: "DeviceUsage"}, report}}
	for i := range report.Rows {
		d.Items = append(d.Items, &report.Rows[i])
		d.Names = append(d.Names, orNone(report.Rows[i].Name))
	}
	return d
}

// Usage prints a report. With t.Wide, each cause has a column.
func (t *Terminal) Usage(report *usage.Report) {
	if report.Total.Devices == 0 {
		t.Line("No devices: nothing publishes any.")
		return
	}
	name, _, _ := strings.Cut(string(report.By), "=")
	if attribute, found := strings.CutPrefix(string(report.By), string(usage.ByAttribute)+"="); found {
		name = attribute
	}
	headers := []string{strings.ToUpper(name), "DEVICES", "HELD", "FREE", "STRANDED"}
	if t.Wide {
		headers = append(headers, "SHARES LEFT")
		for _, cause := range usage.Causes() {
			headers = append(headers, strings.ToUpper(string(cause)))
		}
	} else {
		headers = append(headers, "BECAUSE OF")
	}
	var rows [][]string
	for i := range report.Rows {
		rows = append(rows, t.usageRow(orNone(report.Rows[i].Name), &report.Rows[i].Counts))
	}
	rows = append(rows, t.usageRow("TOTAL", &report.Total))
	t.Table(headers, rows)
}

// UsageLine returns counts as a phrase.
func UsageLine(c *usage.Counts) string {
	text := fmt.Sprintf("%s: %d held, %d free, %d stranded", Count(c.Devices, "device"), c.Held, c.Free, c.Stranded)
	if causes := causesOf(c); len(causes) > 0 {
		text += ": " + strings.Join(causes, ", ")
	}
	return text + "."
}

func causesOf(c *usage.Counts) []string {
	var causes []string
	for _, cause := range usage.Causes() {
		if n := c.Causes[cause]; n > 0 {
			causes = append(causes, fmt.Sprintf("%s (%d)", cause, n))
		}
	}
	return causes
}

func (t *Terminal) usageRow(name string, c *usage.Counts) []string {
	row := []string{name, strconv.Itoa(c.Devices), strconv.Itoa(c.Held), strconv.Itoa(c.Free), strconv.Itoa(c.Stranded)}
	if !t.Wide {
		return append(row, orNone(strings.Join(causesOf(c), ", ")))
	}
	row = append(row, strconv.Itoa(c.Shares))
	for _, cause := range usage.Causes() {
		row = append(row, strconv.Itoa(c.Causes[cause]))
	}
	return row
}
