// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package landscape

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/test/landscape/apply"
	"github.com/livecpm/livecpm/test/landscape/cluster"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/garden"
	"github.com/livecpm/livecpm/test/permissions"
)

// holder is somebody who has the permissions of a role with the name, and of those whose names begin with it.
type holder struct {
	clusters []string
	role     string
	user     func(string) bool
}

func holders(cfg *config.Config) []holder {
	var seeds []string
	for _, seed := range cfg.Seeds {
		seeds = append(seeds, seed.Name)
	}
	inSeed := func(user string) bool { return user == "system:serviceaccount:"+livecpmNamespace+":livecpm-agent" }
	inGarden := func(user string) bool {
		return strings.HasPrefix(user, "system:serviceaccount:seed-") &&
			strings.Contains(user, ":extension-"+registrationName+"-")
	}
	return []holder{
		{seeds, "livecpm:agent", inSeed},
		{seeds, "livecpm-agent", inSeed},
		{[]string{cfg.Garden.Name}, "livecpm:extension", inGarden},
		{[]string{cfg.Garden.Name}, "livecpm:agent", inGarden},
		{[]string{cfg.Garden.Name}, "livecpm:controller-manager",
			func(user string) bool { return user == garden.LivecpmIdentity }},
	}
}

// Permissions prints which permissions of agents and controller manager were not used since the landscape came up, by
// the audit logs of its API servers. What one seed has used need not be used in the other.
func (l *Landscape) Permissions(ctx context.Context, out io.Writer) error {
	if !l.Config.Audit {
		return fmt.Errorf("the API servers write down nothing: bring the landscape up with %s=on, and set it here",
			config.EnvAudit)
	}
	for _, holder := range holders(l.Config) {
		var rules []rbacv1.PolicyRule
		var uses permissions.Uses
		for _, name := range holder.clusters {
			more, err := l.rulesOf(ctx, name, holder.role)
			if err != nil {
				return err
			}
			rules = append(rules, more...)
			used, err := readAudit(cluster.AuditLog(l.Config, name), holder.user)
			if err != nil {
				return err
			}
			uses = append(uses, used...)
		}
		unused := uses.Unused(permissions.Granted(rules...)...)
		slices.Sort(unused)
		unused = slices.Compact(unused)
		fmt.Fprintf(out, "%s in %s: %d permissions, %d permitted requests, %d permissions unused\n",
			holder.role, strings.Join(holder.clusters, " and "),
			len(permissions.Granted(rules...))/len(holder.clusters), len(uses), len(unused))
		for _, permission := range unused {
			fmt.Fprintf(out, "  %s\n", permission)
		}
	}
	return nil
}

func readAudit(file string, user func(string) bool) (permissions.Uses, error) {
	log, err := os.Open(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("failed to find %s: was the landscape brought up with %s=on?", file, config.EnvAudit)
	} else if err != nil {
		return nil, fmt.Errorf("failed to open the audit log: %w", err)
	}
	defer log.Close() //nolint:errcheck // It is only read.
	return permissions.ReadAudit(log, user)
}

// rulesOf returns the rules of the roles in the cluster that have the name, or the name with something behind a colon.
func (l *Landscape) rulesOf(ctx context.Context, clusterName, role string) ([]rbacv1.PolicyRule, error) {
	restConfig, err := apply.RESTConfig(l.Config.Kubeconfig(clusterName))
	if err != nil {
		return nil, err
	}
	c, err := client.New(restConfig, client.Options{})
	if err != nil {
		return nil, fmt.Errorf("failed to make client of %s: %w", clusterName, err)
	}
	clusterRoles, roles := &rbacv1.ClusterRoleList{}, &rbacv1.RoleList{}
	if err := errors.Join(c.List(ctx, clusterRoles), c.List(ctx, roles)); err != nil {
		return nil, fmt.Errorf("failed to list roles in %s: %w", clusterName, err)
	}
	named := func(name string) bool { return name == role || strings.HasPrefix(name, role+":") }
	var out []rbacv1.PolicyRule
	for _, found := range clusterRoles.Items {
		if named(found.Name) {
			out = append(out, found.Rules...)
		}
	}
	for _, found := range roles.Items {
		if named(found.Name) {
			out = append(out, found.Rules...)
		}
	}
	return out, nil
}
