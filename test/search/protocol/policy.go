// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"context"
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/livecpm/livecpm/pkg/garden/gatewatchdog"
)

// Policy judges writes of a Shoot by the rules of the gate: those that the chart of the garden ships, evaluated by the
// code of the API server. It remembers its verdicts, which depend on nothing but the two Shoots.
type Policy struct {
	validator validating.Validator
	verdicts  map[string]string
}

// shoots names the resource that the rules are for.
var shoots = gardencorev1beta1.SchemeGroupVersion.WithResource("shoots")

// ShippedPolicy returns the policy of the chart that is compiled in.
func ShippedPolicy() (*Policy, error) {
	shipped, err := gatewatchdog.Shipped()
	if err != nil {
		return nil, fmt.Errorf("failed to read the policy of the gate from its chart: %w", err)
	}
	return NewPolicy(shipped.Policy)
}

// NewPolicy compiles a policy, as compilePolicy in k8s.io/apiserver's pkg/admission/plugin/policy/validating does.
func NewPolicy(policy *admissionregistrationv1.ValidatingAdmissionPolicy) (*Policy, error) {
	compiler, err := cel.NewCompositedCompiler(
		environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		return nil, fmt.Errorf("failed to make a compiler for policy %s: %w", policy.Name, err)
	}
	var (
		declared                        = cel.OptionalVariableDeclarations{HasAuthorizer: true}
		variables                       []cel.NamedExpressionAccessor
		conditions, validations, nobody []cel.ExpressionAccessor
	)
	for i := range policy.Spec.Variables {
		variables = append(variables, &validating.Variable{
			Name: policy.Spec.Variables[i].Name, Expression: policy.Spec.Variables[i].Expression})
	}
	for i := range policy.Spec.MatchConditions {
		conditions = append(conditions, (*matchconditions.MatchCondition)(&policy.Spec.MatchConditions[i]))
	}
	for _, validation := range policy.Spec.Validations {
		validations = append(validations, &validating.ValidationCondition{
			Expression: validation.Expression, Message: validation.Message, Reason: validation.Reason})
	}
	compiler.CompileAndStoreVariables(variables, declared, environment.StoredExpressions)
	return &Policy{
		verdicts: map[string]string{},
		validator: validating.NewValidator(
			compiler.CompileCondition(validations, declared, environment.StoredExpressions),
			matchconditions.NewMatcher(
				compiler.CompileCondition(conditions, declared, environment.StoredExpressions),
				policy.Spec.FailurePolicy, "policy", "validate", policy.Name),
			compiler.CompileCondition(nobody, declared, environment.StoredExpressions),
			compiler.CompileCondition(nobody, declared, environment.StoredExpressions),
			policy.Spec.FailurePolicy, nil),
	}, nil
}

// Refuses returns the message with which the policy refuses that the Shoot is changed from before to after; empty if
// it does not. Without after, the Shoot is deleted.
func (p *Policy) Refuses(before, after *gardencorev1beta1.Shoot) (string, error) {
	key := judged(before) + "\n"
	if after != nil {
		key += judged(after)
	}
	if verdict, known := p.verdicts[key]; known {
		return verdict, nil
	}
	verdict, err := p.judge(before, after)
	if err == nil {
		p.verdicts[key] = verdict
	}
	return verdict, err
}

func (p *Policy) judge(before, after *gardencorev1beta1.Shoot) (string, error) {
	kind := gardencorev1beta1.SchemeGroupVersion.WithKind("Shoot")
	operation, options := admission.Update, runtime.Object(&metav1.UpdateOptions{})
	var object runtime.Object
	if after == nil {
		operation, options = admission.Delete, &metav1.DeleteOptions{}
	} else {
		object = after
	}
	attributes := &admission.VersionedAttributes{
		Attributes: admission.NewAttributesRecord(object, before, kind, before.Namespace, before.Name, shoots, "",
			operation, options, false, nil),
		VersionedKind: kind, VersionedOldObject: before, VersionedObject: object,
	}
	result := p.validator.Validate(context.Background(), shoots, attributes, nil, nil, celconfig.RuntimeCELCostBudget,
		nil)
	for _, decision := range result.Decisions {
		if decision.Evaluation == validating.EvalError {
			return "", fmt.Errorf("failed to evaluate the policy of the gate: %s", decision.Message)
		}
		if decision.Action == validating.ActionDeny {
			return decision.Message, nil
		}
	}
	return "", nil
}
