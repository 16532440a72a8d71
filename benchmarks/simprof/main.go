package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime/pprof"
	"strings"
	"time"
)

func main() {
	match := flag.String("row", "cold", "")
	flag.Parse()
	ctx := context.Background()
	w, err := newWorld(ctx, 1000, 6600)
	must(err)
	b, err := newBench(ctx, w)
	must(err)
	must(b.readTemplates())
	for _, row := range b.rows() {
		if !strings.Contains(row.name, *match) {
			continue
		}
		f, _ := os.Create("/tmp/sim.prof")
		must(pprof.StartCPUProfile(f))
		for range 5 {
			ours := row.measure()
			fmt.Println(row.name, show(ours.perOp), ours.bytes)
		}
		pprof.StopCPUProfile()
		f.Close()
	}
}

func show(d time.Duration) string { return d.String() }
