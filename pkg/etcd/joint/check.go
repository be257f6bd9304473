// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint

import (
	"context"
	"errors"
	"fmt"
	"strings"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	gardeneretcd "github.com/gardener/gardener/pkg/component/etcd/etcd"
	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/etcd/quorum"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// CheckSource returns an error unless both etcd clusters consist of exactly the source's members, all of them healthy.
func (j *Joint) CheckSource(ctx context.Context) error {
	var errs []error
	for _, etcdRole := range naming.EtcdRoles {
		if _, err := j.sourceOnly(ctx, etcdRole); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", naming.EtcdName(etcdRole), err))
		}
	}
	return errors.Join(errs...)
}

func (j *Joint) sourceOnly(ctx context.Context, etcdRole string) (Observation, error) {
	seen, err := j.Observe(ctx, etcdRole)
	if err != nil {
		return Observation{}, err
	}
	if _, problem := seen.problem(); problem != "" {
		return Observation{}, errors.New(problem)
	}
	if len(seen.Members) != j.Members ||
		len(seen.Members.Voters().On(quorum.Source).Healthy()) != j.Members {
		return Observation{}, fmt.Errorf("%d healthy voters of the source are expected, there are %s",
			j.Members, seen.Summary())
	}
	return seen, nil
}

// OnlyDestinationLeft reports whether both clusters consist of the destination's members only, all of them healthy
// voters, and says what is missing otherwise. When it is so, the destination's Etcds belong to etcd-druid again; see
// ReleaseRollout.
func (j *Joint) OnlyDestinationLeft(ctx context.Context) (bool, string, error) {
	left, missing, err := j.both(ctx, func(ctx context.Context, etcdRole string) (string, error) {
		seen, hold, err := j.observeForChange(ctx, etcdRole)
		if err != nil {
			return "", err
		}
		if hold != nil {
			return hold.Message, nil
		}
		return j.destinationOnly(seen), nil
	})
	if err != nil || !left || j.Role != steps.Destination {
		return left, missing, err
	}
	if err := j.ReleaseRollout(ctx); err != nil {
		return false, "", err
	}
	return true, "", nil
}

func (j *Joint) destinationOnly(seen Observation) string {
	if _, problem := seen.problem(); problem != "" {
		return problem
	}
	if len(seen.Members) != j.Members ||
		len(seen.Members.Voters().On(quorum.Destination).Healthy()) != j.Members {
		return seen.Summary()
	}
	return ""
}

// CheckPlain reports whether the destination's Etcds have their ordinary specification and have settled with it, and
// says what is missing otherwise.
func (j *Joint) CheckPlain(ctx context.Context) (bool, string, error) {
	return j.both(ctx, func(ctx context.Context, etcdRole string) (string, error) {
		etcd, err := j.getEtcd(ctx, etcdRole)
		if err != nil {
			return "", err
		}
		if etcd.Spec.Etcd.BootstrapWithExistingCluster != nil {
			return "it still has the bootstrap of the joint cluster", nil
		}
		if port := ptr.Deref(etcd.Spec.Etcd.ServerPort, naming.PortPeerSource); port != naming.PortPeerSource {
			return fmt.Sprintf("its peer port is %d, not %d", port, naming.PortPeerSource), nil
		}
		if missing := unsettled(etcd); missing != "" {
			return missing, nil
		}
		seen, err := j.Observe(ctx, etcdRole)
		if err != nil {
			return "", err
		}
		if missing := j.destinationOnly(seen); missing != "" {
			return missing, nil
		}
		return j.otherURLs(etcdRole, seen), nil
	})
}

// CheckRolled reports whether the members of both of the destination's Etcds have restarted with the ordinary
// specification and serve, and both Etcds belong to etcd-druid again. It says what is missing otherwise. Unlike
// CheckPlain, it does not wait for what etcd-druid reports of them.
func (j *Joint) CheckRolled(ctx context.Context) (bool, string, error) {
	return j.both(ctx, func(ctx context.Context, etcdRole string) (string, error) {
		r, err := j.lookAtRollout(ctx, etcdRole)
		if err != nil {
			return "", err
		}
		missing := r.notApplied()
		switch {
		case missing != "":
			return missing, nil
		case !r.allRestarted() || r.suspended() || r.partition() != 0:
			return "its members have not all been restarted", nil
		}
		seen, err := j.Observe(ctx, etcdRole)
		if err != nil {
			return "", err
		}
		if missing := j.destinationOnly(seen); missing != "" {
			return missing, nil
		}
		return j.otherURLs(etcdRole, seen), nil
	})
}

// otherURLs says which member has other peer URLs than the ordinary one; empty if none has.
func (j *Joint) otherURLs(etcdRole string, seen Observation) string {
	for id, member := range seen.Raw {
		known, _ := seen.Members.ByID(id)
		if expected := j.plainURLs(etcdRole, known.Ordinal); !sameURLs(member.PeerURLs, expected) {
			return fmt.Sprintf("member %s has the peer URLs %v, not %s", member, member.PeerURLs,
				strings.Join(expected, ","))
		}
	}
	return ""
}

// unsettled says why the Etcd does not count as reconciled and ready; empty if it does.
func unsettled(etcd *druidcorev1alpha1.Etcd) string {
	if err := gardeneretcd.CheckEtcdObject(etcd); err != nil {
		return err.Error()
	}
	return ""
}
