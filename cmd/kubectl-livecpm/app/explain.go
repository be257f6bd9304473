// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/livecpm/livecpm/pkg/cli/document"
	"github.com/livecpm/livecpm/pkg/cli/explain"
	"github.com/livecpm/livecpm/pkg/cli/view"
)

func newExplain(o *options) *cobra.Command {
	command := &cobra.Command{
		Use:   "explain [REASON|STEP|GUARD|ALERT|TOPIC]",
		Short: "Explain a reason, a step, a guard or an alert, and what to do about it",
		Long: "Show the page about a reason, a step (by its condition or number), a guard, an alert, or a topic as " +
			"abort and recovery:\n" +
			"what it means, where to look, and what to do. The pages are in the plugin; nothing is asked of a " +
			"garden. Without a word,\nlist all of them.",
		Example: example(
			"%[1]s explain BastionExists",
			"%[1]s explain 6",
			"%[1]s explain recovery",
			"%[1]s explain EtcdHealth -o json | jq -r .url",
		),
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				all, err := explain.All()
				if err != nil {
					return err
				}
				return o.print(document.Document{Kind: document.WordList, Value: all, Names: namesOf(all, wordName)},
					func() string { return view.Words(words(all), o.view()) })
			}
			entry, err := explain.Find(args[0])
			if err != nil {
				return err
			}
			return o.print(document.Document{Kind: document.Word, Value: entry, Names: []string{wordName(entry)}},
				func() string { return page(entry, o.view()) })
		},
	}
	completeArgument(command, func(*cobra.Command) ([]string, error) {
		all, err := explain.All()
		if err != nil {
			return nil, err
		}
		var out []string
		for _, entry := range all {
			out = append(out, entry.Name+"\t"+strings.ToLower(string(entry.Kind)))
		}
		return out, nil
	})
	o.addOutput(command)
	return command
}

// wordName is the name of a word beside others that may be of another kind.
func wordName(entry explain.Entry) string {
	return strings.ToLower(string(entry.Kind)) + "/" + entry.Name
}

// page returns what is shown about the word.
func page(entry explain.Entry, v view.Options) string {
	// The page of a step or a topic begins with its name; that of a guard or a reason needs to be told about.
	markdown := entry.Content
	switch {
	case markdown == "":
		markdown = "# " + entry.Name + "\n\n" + string(entry.Kind) + ": " + entry.Short + "\n"
	case entry.Kind == explain.KindGuard:
		markdown = "# " + entry.Name + "\n\n" + string(entry.Kind) + ": " + entry.Short + "\n\n" + markdown
	}
	return view.Page(markdown, lead, v) + "\nThis page: " + entry.URL + "\n"
}

// lead says how to get to the page behind a link.
func lead(url string) string {
	if name, ok := explain.Named(url); ok && !strings.Contains(url, "#") {
		return Name + " explain " + name
	}
	return url
}

func words(entries []explain.Entry) []view.Word {
	var out []view.Word
	for _, entry := range entries {
		short := entry.Short
		if entry.Kind == explain.KindGuard {
			// What all guards have in common would be all that fits.
			_, reason, _ := strings.Cut(short, "with the reason ")
			short = "reason " + reason
		}
		out = append(out, view.Word{Kind: string(entry.Kind), Name: entry.Name, Short: short})
	}
	return out
}
