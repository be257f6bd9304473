// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package exposure

import (
	"context"
	"errors"
	"fmt"

	"github.com/gardener/gardener/pkg/controllerutils"
	"github.com/gardener/gardener/pkg/utils"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
)

// errForbidden means that the agent has given itself the permission and may not use it yet.
var errForbidden = errors.New("the Role and the RoleBinding " + Name + " permit it, and yet it is forbidden")

// permit gives the agent the permission to write the status of the relay's pods, by their names and as long as there is
// the relay. No other part of the agent writes the status of any pod, so it has no such permission in general.
func (e *exposure) permit(ctx context.Context, owner *appsv1.StatefulSet) error {
	review := &authenticationv1.SelfSubjectReview{}
	if err := e.client.Create(ctx, review); err != nil {
		return fmt.Errorf("failed to ask the seed who this agent is: %w", err)
	}
	if review.Status.UserInfo.Username == "" {
		return errors.New("failed to ask the seed who this agent is: it gives no name")
	}
	role, binding := e.permission()
	changed := false
	for _, task := range []struct {
		object client.Object
		mutate func()
	}{
		{role, func() {
			role.Rules = []rbacv1.PolicyRule{{
				APIGroups: []string{""}, Resources: []string{"pods/status"}, Verbs: []string{"patch"},
			}}
			for ordinal := range naming.MembersPerSeed {
				role.Rules[0].ResourceNames = append(role.Rules[0].ResourceNames, fmt.Sprintf("%s-%d", Name, ordinal))
			}
		}},
		{binding, func() {
			binding.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name}
			binding.Subjects = []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind,
				Name: review.Status.UserInfo.Username}}
		}},
	} {
		result, err := controllerutils.GetAndCreateOrMergePatch(ctx, e.client, task.object, func() error {
			task.object.SetLabels(utils.MergeStringMaps(task.object.GetLabels(), ourLabels()))
			task.object.SetOwnerReferences(ownedBy(owner))
			task.mutate()
			return nil
		}, controllerutils.SkipEmptyPatch{})
		if err != nil {
			return fmt.Errorf("failed to permit the agent to write the status of relay pods: %T %s: %w", task.object,
				client.ObjectKeyFromObject(task.object), err)
		}
		changed = changed || result != controllerutil.OperationResultNone
	}
	if !changed {
		return errForbidden
	}
	return nil
}

func (e *exposure) permission() (*rbacv1.Role, *rbacv1.RoleBinding) {
	return &rbacv1.Role{ObjectMeta: e.objectMeta(Name)}, &rbacv1.RoleBinding{ObjectMeta: e.objectMeta(Name)}
}
