// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dray-project/dray/cmd/dray/internal/cluster"
	"github.com/dray-project/dray/cmd/dray/internal/input"
	"github.com/dray-project/dray/cmd/dray/internal/view"
)

const viewLong = `Show who holds what, why pods wait, and what if, as a page in a browser.

The page is served to this machine only, to whoever has the token in the address
that is printed. A cluster is followed; files are read once. Nothing is ever written
to the cluster. With -o the page is written into one file, which needs no server.

-n, -A, -l and --field-selector choose among what waits.

Exit status: 0, 2 for wrong usage or input, 130 if interrupted.`

const viewExample = `  # The cluster of your kubeconfig
  dray view

  # Manifests
  dray view -f cluster/

  # One file, for a report
  dray view -f cluster/ -o view.html`

type viewFlags struct {
	origin    *origin
	selection *selection
	file      string
	open      bool
	port      uint16
	where     view.Listen
	tokenFile string
}

func newView(o *origin) *cobra.Command {
	flags := &viewFlags{origin: o, selection: &selection{origin: o}}
	command := &cobra.Command{
		Use:     "view",
		Short:   "Show who holds what, why pods wait, and what if, as a page in a browser",
		Long:    viewLong,
		Example: viewExample,
		Args:    noArguments,
		PreRunE: func(*cobra.Command, []string) error { return firstError(flags.selection.parse, flags.check) },
		RunE:    func(command *cobra.Command, _ []string) error { return flags.run(command.Context()) },
	}
	set := command.Flags()
	set.StringVarP(&flags.file, "output", "o", "", "write the page into this file, as in view.html, instead of serving it")
	set.BoolVar(&flags.open, "open", true, "open a browser, if there is one")
	set.Uint16Var(&flags.port, "port", 0, "port of the loopback address; 0 is any that is free")
	set.StringVar(&flags.where.Address, "address", "", "HOST:PORT for others than this machine; with --tls-cert-file, --tls-private-key-file and --token-file only")
	set.StringVar(&flags.where.Certificate, "tls-cert-file", "", "certificate of the server, PEM")
	set.StringVar(&flags.where.Key, "tls-private-key-file", "", "key of the certificate, PEM")
	set.StringVar(&flags.tokenFile, "token-file", "", "file with the token that the address has, of at least 16 characters, instead of a random one")
	flags.selection.addTo(set)
	return command
}

// shortestToken is the minimum length of a token, in characters, so that it cannot be guessed.
const shortestToken = 16

func (f *viewFlags) check() error {
	if f.tokenFile != "" {
		content, err := os.ReadFile(f.tokenFile)
		if err != nil {
			return fmt.Errorf("--token-file: %w", err)
		}
		if f.where.Token = strings.TrimSpace(string(content)); len(f.where.Token) < shortestToken || strings.ContainsFunc(f.where.Token, notOfToken) {
			return fmt.Errorf("--token-file %s: want at least %d letters, digits, - or _", f.tokenFile, shortestToken)
		}
	}
	if f.where.Address == "" {
		if f.where.Certificate+f.where.Key != "" {
			return errors.New("--tls-cert-file and --tls-private-key-file are for --address, which is missing")
		}
		f.where.Address = net.JoinHostPort("127.0.0.1", fmt.Sprint(f.port))
		return nil
	}
	if f.where.Certificate == "" || f.where.Key == "" || f.where.Token == "" {
		return fmt.Errorf("--address %s: others than this machine need --tls-cert-file, --tls-private-key-file and --token-file", f.where.Address)
	}
	return nil
}

func notOfToken(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
}

func (f *viewFlags) run(ctx context.Context) error {
	options, err := f.origin.options()
	if err != nil {
		return err
	}
	reading := f.origin.reading(options)
	source := &view.Source{
		Build: func(objects *input.Objects) (*cluster.Cluster, error) { return cluster.New(objects, options) },
		Read: func(text string) (*input.Objects, error) {
			return input.Read([]string{input.Stdin}, strings.NewReader(text), reading)
		},
		Covers: f.selection.covers, Name: f.name(), Arguments: f.arguments(),
		Live: f.origin.live() && f.file == "",
	}
	objects, follower, err := f.read(ctx, options)
	if err != nil {
		return err
	}
	f.origin.describe(objects)
	f.origin.warnOfGroups(objects, options.GroupClaims)
	if _, err := unlessDone(ctx, func() (struct{}, error) { return struct{}{}, source.Update(ctx, objects) }); err != nil {
		return err
	}
	if f.file != "" {
		return f.write(source.Picture())
	}
	debug.FreeOSMemory() // reading needs more memory than what is kept
	server, err := view.NewServer(ctx, source, f.where)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(f.origin.streams.Out, server.URL()); err != nil {
		return err
	}
	if f.open {
		openBrowser(ctx, server.URL())
	}
	if follower != nil {
		go source.Follow(ctx, follower)
	}
	return server.Serve(ctx)
}

// read reads files, or the cluster, which it then follows by watches.
func (f *viewFlags) read(ctx context.Context, options cluster.Options) (*input.Objects, *input.Follower, error) {
	if !f.origin.live() {
		objects, err := f.origin.read(ctx, options)
		return objects, nil, err
	}
	client, config, err := f.origin.client()
	if err != nil {
		return nil, nil, err
	}
	p := newProgress(f.origin.streams.Err, "reading the cluster", -1)
	defer p.done()
	follower, err := input.Follow(ctx, client, f.origin.namespace(), p.step)
	if err != nil {
		return nil, nil, f.origin.explainUnanswered(ctx, config, err)
	}
	objects, err := follower.Objects()
	return objects, follower, err
}

// name returns a description of the source.
func (f *viewFlags) name() string {
	if f.origin.live() {
		raw, err := f.origin.kube.ToRawKubeConfigLoader().RawConfig()
		name := raw.CurrentContext
		if given := *f.origin.kube.Context; given != "" {
			name = given
		}
		if err != nil || name == "" {
			return "cluster"
		}
		return "cluster " + name
	}
	return strings.TrimSpace(f.arguments())
}

// arguments returns the command line arguments for the source.
func (f *viewFlags) arguments() string {
	if f.origin.live() {
		return ""
	}
	return strings.TrimSpace(f.origin.terminal(&output{}).Flags)
}

// write writes the page to a file.
func (f *viewFlags) write(p *view.Picture) error {
	if f.file == "-" {
		return view.WriteFile(f.origin.streams.Out, p)
	}
	out, err := os.Create(f.file)
	if err != nil {
		return fmt.Errorf("--output: %w", err)
	}
	if err := errors.Join(view.WriteFile(out, p), out.Close()); err != nil {
		return fmt.Errorf("--output: %w", err)
	}
	return nil
}

// openBrowser opens the page in a browser, if there is one.
func openBrowser(ctx context.Context, address string) {
	program, arguments := "xdg-open", []string{address}
	switch runtime.GOOS {
	case "darwin":
		program = "open"
	case "windows":
		program, arguments = "rundll32", []string{"url.dll,FileProtocolHandler", address}
	}
	if command := exec.CommandContext(ctx, program, arguments...); command.Start() == nil {
		go func() { _ = command.Wait() }() // an error is ignored, since the address is printed, too
	}
}
