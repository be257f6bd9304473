// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// completionTimeout bounds what a shell waits for.
const completionTimeout = 3 * time.Second

type completer func(*cobra.Command) ([]string, error)

// complete lets a shell complete the value of the flag.
func complete(command *cobra.Command, flag string, values completer) {
	if err := command.RegisterFlagCompletionFunc(flag, completion(values)); err != nil {
		// The flag does not exist: the code is wrong.
		panic(err)
	}
}

// completeArgument lets a shell complete the one argument of the command.
func completeArgument(command *cobra.Command, values completer) {
	inner := completion(values)
	command.ValidArgsFunction = func(
		command *cobra.Command, args []string, toComplete string,
	) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return inner(command, args, toComplete)
	}
}

func completion(values completer) cobra.CompletionFunc {
	return func(command *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		names, err := values(command)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError | cobra.ShellCompDirectiveNoFileComp
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

func (o *options) shoots(command *cobra.Command) ([]string, error) {
	ctx, cancel := context.WithTimeout(contextOf(command), completionTimeout)
	defer cancel()
	g, err := o.garden.Connect(command.Context())
	if err != nil {
		return nil, err
	}
	return g.ShootNames(ctx)
}

func (o *options) seedNames(command *cobra.Command) ([]string, error) {
	ctx, cancel := context.WithTimeout(contextOf(command), completionTimeout)
	defer cancel()
	g, err := o.garden.Connect(command.Context())
	if err != nil {
		return nil, err
	}
	seeds, err := g.Seeds(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, seed := range seeds {
		names = append(names, seed.Name+"\t"+seed.Spec.Provider.Region)
	}
	return names, nil
}

func (o *options) namespaces(command *cobra.Command) ([]string, error) {
	ctx, cancel := context.WithTimeout(contextOf(command), completionTimeout)
	defer cancel()
	g, err := o.garden.Connect(command.Context())
	if err != nil {
		return nil, err
	}
	list := &corev1.NamespaceList{}
	if err := g.Client.List(ctx, list); err != nil {
		return nil, fmt.Errorf("failed to list the namespaces: %w", err)
	}
	var names []string
	for _, namespace := range list.Items {
		names = append(names, namespace.Name)
	}
	return names, nil
}

func stepNames(*cobra.Command) ([]string, error) {
	var names []string
	for i, step := range steps.Table() {
		names = append(names, fmt.Sprintf("%s\tstep %d, %s: %s", step, i+1, step.Owner, step.Title))
	}
	return names, nil
}

func contextOf(command *cobra.Command) context.Context {
	if ctx := command.Context(); ctx != nil {
		return ctx
	}
	return context.Background()
}
