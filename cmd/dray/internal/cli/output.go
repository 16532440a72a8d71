package cli

import (
	"github.com/spf13/cobra"

	"github.com/dray-project/dray/cmd/dray/internal/render"
)

// output is what -o and --no-headers say.
type output struct {
	text      string
	noHeaders bool
	format    render.Format
}

func (o *output) addTo(command *cobra.Command) {
	command.Flags().StringVarP(&o.text, "output", "o", "",
		"wide, json, yaml, name, jsonpath=TEMPLATE, go-template=TEMPLATE or custom-columns=HEADER:PATH,..., instead of text for people")
	command.Flags().BoolVar(&o.noHeaders, "no-headers", false, "leave the headers of tables out")
	// It fails only for flags that do not exist.
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(render.Formats(), cobra.ShellCompDirectiveNoFileComp))
}

func (o *output) parse() (err error) {
	o.format, err = render.ParseFormat(o.text)
	return err
}
