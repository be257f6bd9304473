// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package permissions compares what roles permit with what was used of it, by the audit log of a kube-apiserver.
package permissions

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// Permission is a verb for a resource, as a rule of a role has it.
type Permission struct {
	Group, Resource, Verb string
	// Name is the name of the object if the rule is for that one only.
	Name string
}

// String returns the permission as "group/resource verb", with the name behind it if there is one.
func (p Permission) String() string {
	out := fmt.Sprintf("%s/%s %s", p.Group, p.Resource, p.Verb)
	if p.Name != "" {
		out += " " + p.Name
	}
	return out
}

// Granted returns the permissions that the rules give.
func Granted(rules ...rbacv1.PolicyRule) []Permission {
	var out []Permission
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					for _, name := range names {
						out = append(out, Permission{Group: group, Resource: resource, Verb: verb, Name: name})
					}
				}
			}
		}
	}
	return out
}

// Use is a request that was permitted.
type Use struct {
	Permission
	// Namespace is that of the object.
	Namespace string
	// Reason is what has permitted it.
	Reason string
}

// Uses are requests that were permitted.
type Uses []Use

// Has reports whether the permission was used. Who may watch has to be able to list: clients fetch what is there by a
// watch where the API server can do that, and by a list where it cannot.
func (u Uses) Has(p Permission) bool {
	return slices.ContainsFunc(u, func(use Use) bool {
		return use.Group == p.Group && use.Resource == p.Resource &&
			(use.Verb == p.Verb || use.Verb == "watch" && p.Verb == "list") &&
			(p.Name == "" || p.Name == use.Name)
	})
}

// Unused returns the permissions that were not used.
func (u Uses) Unused(granted ...Permission) []string {
	var out []string
	for _, permission := range granted {
		if !u.Has(permission) {
			out = append(out, permission.String())
		}
	}
	return out
}

// AuditPolicy lets a kube-apiserver write down who asks for what, and nothing of the contents.
func AuditPolicy() *auditv1.Policy {
	return &auditv1.Policy{
		TypeMeta:   metav1.TypeMeta{APIVersion: auditv1.SchemeGroupVersion.String(), Kind: "Policy"},
		OmitStages: []auditv1.Stage{auditv1.StageRequestReceived},
		Rules:      []auditv1.PolicyRule{{Level: auditv1.LevelMetadata}},
	}
}

// ReadAudit returns the requests in an audit log that were permitted to users that are chosen. Who is impersonated is
// the user.
func ReadAudit(log io.Reader, chosen func(username string) bool) (Uses, error) {
	var out Uses
	scanner := bufio.NewScanner(log)
	scanner.Buffer(nil, 16<<20)
	for scanner.Scan() {
		var event auditv1.Event
		if err := json.Unmarshal(scanner.Bytes(), &event); err != nil {
			return nil, fmt.Errorf("failed to decode a line of the audit log: %w", err)
		}
		user := event.User
		if event.ImpersonatedUser != nil {
			user = *event.ImpersonatedUser
		}
		// An admission policy may refuse what was permitted: that is a use, too.
		if event.ObjectRef == nil || !chosen(user.Username) ||
			event.Annotations["authorization.k8s.io/decision"] != "allow" {
			continue
		}
		resource := event.ObjectRef.Resource
		if event.ObjectRef.Subresource != "" {
			resource += "/" + event.ObjectRef.Subresource
		}
		out = append(out, Use{
			Permission: Permission{Group: event.ObjectRef.APIGroup, Resource: resource, Verb: event.Verb,
				Name: event.ObjectRef.Name},
			Namespace: event.ObjectRef.Namespace,
			Reason:    event.Annotations["authorization.k8s.io/reason"],
		})
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("failed to read the audit log: %w", err)
	}
	return out, nil
}
