package benchmarks

import (
	"fmt"

	"github.com/dray-project/dray/alloctest"
)

var countingCliffs = []Cliff{
	{Name: "one-device-too-few", K: "requests of one device each", Sizes: []int{4, 8, 16, 32}, Build: oneDeviceTooFew},
}

// oneDeviceTooFew is K requests for K-1 devices.
func oneDeviceTooFew(k int) *alloctest.Case {
	c := newCluster(fmt.Sprintf("%d requests, %d devices", k, k-1))
	c.node("node")
	c.class("gpu", `device.driver == "gpu.example.com"`)
	c.pool(gpuDriver, "node", devices(k-1, func(i int) deviceOption { return attribute("uuid", fmt.Sprintf("GPU-%d", i)) })...)
	c.claim("pending", requests(k, "gpu")...)
	return c.Case
}
