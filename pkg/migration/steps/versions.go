// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
)

// AnnotationConfirmVersions on a Shoot lists Gardener versions, separated by commas, with all of which an operator lets
// the migration continue. It counts beyond the point of no return only, and for versions of one minor release: during
// the rollout of a patch release a migration would otherwise wait half-way, without controllers in either seed. Whoever
// sets it names the versions, so that it does not cover others that come later.
const AnnotationConfirmVersions = "migration.gardener.cloud/confirm-versions"

// PastReturn reports whether the source's etcd members have left, or are leaving, so that there is no way back: the
// step that marks the point of no return is finished, or the members were forced out earlier.
func PastReturn(shoot *gardencorev1beta1.Shoot) bool {
	conditions := Conditions(shoot)
	if !Requested(shoot) || !Initialized(conditions) {
		return false
	}
	for _, step := range order {
		if !step.Finished(conditions) {
			return false
		}
		if step.PointOfNoReturn || step.Has(WhenForced) && ForceShrinkRequested(shoot) {
			return true
		}
	}
	return false
}

// ConfirmedVersions returns the versions that the operator has confirmed, as the annotation has them.
func ConfirmedVersions(shoot *gardencorev1beta1.Shoot) []string {
	var versions []string
	for version := range strings.SplitSeq(shoot.Annotations[AnnotationConfirmVersions], ",") {
		if version = strings.TrimSpace(version); version != "" {
			versions = append(versions, version)
		}
	}
	return versions
}

// CheckConfirmed returns why the migration must not continue with the versions, although they differ; nil if an
// operator has confirmed all of them, and may do so.
func CheckConfirmed(shoot *gardencorev1beta1.Shoot, versions []string) error {
	if !PastReturn(shoot) {
		return errors.New("before the point of no return a difference cannot be confirmed")
	}
	if err := SamePatchLine(versions); err != nil {
		return err
	}
	confirmed := ConfirmedVersions(shoot)
	for _, version := range versions {
		if !slices.Contains(confirmed, version) {
			return fmt.Errorf("the annotation %s does not name %s", AnnotationConfirmVersions, version)
		}
	}
	return nil
}

// SamePatchLine returns an error unless all versions are releases that differ in the patch at most. Builds between
// releases do not count: what they contain, their version does not tell.
func SamePatchLine(versions []string) error {
	var first *semver.Version
	for _, version := range versions {
		parsed, err := semver.NewVersion(version)
		switch {
		case err != nil:
			return fmt.Errorf("%q is not a version: %w", version, err)
		case parsed.Prerelease() != "" || parsed.Metadata() != "":
			return fmt.Errorf("%s is not a release", version)
		case first == nil:
			first = parsed
		case parsed.Major() != first.Major() || parsed.Minor() != first.Minor():
			return fmt.Errorf("%s and %s differ in more than the patch", versions[0], version)
		}
	}
	return nil
}

// NewerMinor reports whether the version is of a later minor (or major) release than the supported one. What cannot be
// parsed is an error.
func NewerMinor(version, supported string) (bool, error) {
	parsed, err := semver.NewVersion(version)
	if err != nil {
		return false, fmt.Errorf("%q is not a version: %w", version, err)
	}
	known, err := semver.NewVersion(supported)
	if err != nil {
		return false, fmt.Errorf("%q is not a version: %w", supported, err)
	}
	return parsed.Major() > known.Major() || parsed.Major() == known.Major() && parsed.Minor() > known.Minor(), nil
}

// MovesMembers reports whether the etcd members of the source may leave in this step, so that there may be six voters.
// Such a step holds only where its action says so: whether it may is in the member lists, and nowhere else.
func (s Step) MovesMembers() bool { return s.AsksWith(ReasonReadyForSourceMemberRemoval) }
