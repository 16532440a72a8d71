// This file lets the compiler accept the function without a body in linked.go.
