// Package shape interns devices by content: devices that selectors and constraints cannot
// tell apart share one Shape, and equal attribute values are one Value.
package shape
