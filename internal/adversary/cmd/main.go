// Command adversary looks for small clusters on which Dray's search takes the most steps,
// and keeps the ten worst, of different kinds, as scenario files. It goes on from those
// that it finds in its folder.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/dray-project/dray/internal/adversary"
	"github.com/dray-project/dray/internal/peer"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := climb(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "adversary:", err)
		os.Exit(1)
	}
}

func climb(ctx context.Context, arguments []string, out io.Writer) error {
	flags := flag.NewFlagSet("adversary", flag.ContinueOnError)
	seed := flags.Uint64("seed", 1, "seed of all chance")
	rounds := flags.Int("rounds", 100, "how many times to start anew")
	mutations := flags.Int("mutations", 2000, "how many changes to try in a round")
	budget := flags.Int64("budget", 200_000, "steps at which a case counts as undecided, and a round ends")
	limit := flags.Duration("time", 0, "how long to go on; 0 is until the rounds are over")
	folder := flags.String("out", "", "folder of the worst cases, to go on from and to write to")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if *limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, *limit)
		defer cancel()
	}
	meter := &peer.Meter{Budget: *budget}
	worst, err := adversary.Open(ctx, *folder, meter)
	if err != nil {
		return err
	}
	start := time.Now()
	run := adversary.Climb{
		Seed: *seed, Rounds: *rounds, Mutations: *mutations, Meter: meter, Worst: worst,
		Progress: func(round int, f adversary.Found) {
			fmt.Fprintf(out, "%6.0fs round %d: %d steps, %s in %s, %s\n", time.Since(start).Seconds(), round, f.Steps, f.Class, f.Time.Round(time.Microsecond), adversary.Kind(f.Case))
		},
	}
	err = errors.Join(run.Run(ctx), worst.Write())
	for _, f := range worst.All() {
		fmt.Fprintf(out, "%10d steps %10s %-14s %s\n", f.Steps, f.Time.Round(time.Microsecond), f.Class, adversary.Kind(f.Case))
	}
	return err
}
