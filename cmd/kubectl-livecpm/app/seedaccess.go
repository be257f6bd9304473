// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/livecpm/livecpm/pkg/cli/access"
)

// addSeedAccess adds the flag that says which credentials the garden is asked for.
func (o *options) addSeedAccess(command *cobra.Command) {
	command.PersistentFlags().StringVar(&o.access, "seed-access", "",
		"credentials to request from the garden for seeds that are shoots: "+
			strings.Join(access.AllCredentials, ", ")+" (default: seedAccess of the configuration file, else viewer)")
	complete(command, "seed-access", func(*cobra.Command) ([]string, error) { return access.AllCredentials, nil })
}

// addRuntimeAccess adds the flag that says where the garden's own components run.
func (o *options) addRuntimeAccess(command *cobra.Command) {
	command.Flags().StringVar(&o.runtime, "runtime-kubeconfig", "",
		"kubeconfig of the cluster that the garden's own components run in, for the log of livecpm-controller-manager "+
			"(default: "+access.EnvironmentRuntime+", else runtimeKubeconfig of the configuration file)")
}

// openRuntime opens the cluster that the garden's own components run in. It returns nil if none is named.
func (s *surroundings) openRuntime() (*access.Seed, error) {
	return access.OpenRuntime(s.runtime, os.Getenv(access.EnvironmentRuntime), s.config)
}

// openSeeds opens the seeds whose kubeconfigs are named by flags, environment and configuration file. It returns the
// configuration as well, with what the garden is to be asked for to get into other seeds.
func (o *options) openSeeds() (access.Seeds, access.Config, error) {
	if o.access != "" && !slices.Contains(access.AllCredentials, o.access) {
		return nil, access.Config{}, fmt.Errorf("--seed-access is %q; it can be %s", o.access,
			strings.Join(access.AllCredentials, ", "))
	}
	config, err := access.ReadConfig(os.Getenv)
	if err != nil {
		return nil, access.Config{}, err
	}
	named, err := access.SeedFlags(o.seeds, os.Getenv(access.EnvironmentSeeds), config)
	if err != nil {
		return nil, access.Config{}, err
	}
	seeds, err := access.OpenSeeds(named)
	if err != nil {
		return nil, access.Config{}, err
	}
	config.SeedAccess = cmp.Or(access.Credentials(o.access), config.SeedAccess, access.CredentialsViewer)
	return seeds, config, nil
}

// reach gets into the named seeds as far as they are shoots of the garden and there is no other way yet. It asks for
// each of them once: who watches a migration looks every few seconds.
func (s *surroundings) reach(ctx context.Context, names ...string) {
	if s.config.SeedAccess == access.CredentialsNone {
		return
	}
	for _, name := range names {
		if _, open := s.seeds[name]; open || name == "" || s.tried[name] {
			continue
		}
		s.tried[name] = true
		seed, err := access.ManagedSeed(ctx, s.garden.Client, name, s.config.SeedAccess)
		switch {
		case err == nil:
			s.seeds[name] = seed
		case !errors.Is(err, access.ErrNotManaged):
			_, _ = fmt.Fprintf(s.Err, "No access to seed %s: %v\n", name, err)
		}
	}
}
