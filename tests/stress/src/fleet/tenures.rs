//! The periods in which a controller wrote to a cluster. Two periods must not overlap, and at the
//! time of each write its writer must hold the cluster's lease.

/// A write to a member cluster, as its audit log has it. Times are in microseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemberWrite {
    pub(crate) writer: String,
    /// Verb and object.
    pub(crate) what: String,
    /// When the request had arrived.
    pub(crate) begun: i64,
    /// When it was answered.
    pub(crate) ended: i64,
    pub(crate) code: u16,
    /// It has changed the cluster, whatever was answered.
    pub(crate) made: bool,
}

/// A lease that has come to somebody; or to nobody, when it was given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Takeover {
    pub(crate) lease: String,
    pub(crate) writer: String,
    pub(crate) at: i64,
}

/// Writes of one writer without another one's between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tenure<'a> {
    pub(crate) first: &'a MemberWrite,
    /// The one that ended last.
    pub(crate) last: &'a MemberWrite,
}

impl Tenure<'_> {
    pub(crate) fn writer(&self) -> &str {
        &self.first.writer
    }
}

/// The tenures of a cluster; only writes that were made count.
pub(crate) fn tenures(writes: &[MemberWrite]) -> Vec<Tenure<'_>> {
    let mut made: Vec<&MemberWrite> = writes.iter().filter(|write| write.made).collect();
    made.sort_by_key(|write| write.begun);
    let mut tenures: Vec<Tenure<'_>> = Vec::new();
    for write in made {
        match tenures.last_mut() {
            Some(tenure) if tenure.writer() == write.writer => {
                if write.ended > tenure.last.ended {
                    tenure.last = write;
                }
            }
            _ => tenures.push(Tenure { first: write, last: write }),
        }
    }
    tenures
}

/// What must not be in the history of a cluster that is worked on by whoever holds this lease.
pub(crate) fn judge(writes: &[MemberWrite], lease: &str, takeovers: &[Takeover]) -> Vec<String> {
    let mut wrong = overlaps(writes);
    wrong.extend(strays(writes, lease, takeovers));
    wrong
}

/// Writes that were under way when another writer had begun.
fn overlaps(writes: &[MemberWrite]) -> Vec<String> {
    let tenures = tenures(writes);
    let pairs = tenures.iter().zip(tenures.iter().skip(1));
    let overlaps = pairs.filter(|(former, next)| former.last.ended > next.first.begun);
    let problems = overlaps.map(|(former, next)| {
        let (late, first) = (former.last, next.first);
        let by = millis(late.ended - first.begun);
        format!(
            "{} of {} ended {by} after {} of {} had begun",
            late.what, late.writer, first.what, first.writer
        )
    });
    problems.collect()
}

/// Writes whose writer did not have the lease.
fn strays(writes: &[MemberWrite], lease: &str, takeovers: &[Takeover]) -> Vec<String> {
    let history: Vec<&Takeover> = takeovers.iter().filter(|takeover| takeover.lease == lease).collect();
    let strays = writes.iter().filter(|write| write.made && !held(&history, write));
    strays.map(|write| format!("{} of {}: it did not hold {lease}", write.what, write.writer)).collect()
}

/// Whether a lease was a writer's from the beginning of a write to its end.
fn held(history: &[&Takeover], write: &MemberWrite) -> bool {
    let before =
        history.iter().filter(|takeover| takeover.at <= write.begun).max_by_key(|takeover| takeover.at);
    let meanwhile = |takeover: &&&Takeover| takeover.at > write.begun && takeover.at <= write.ended;
    before.is_some_and(|holder| holder.writer == write.writer) && !history.iter().any(|one| meanwhile(&one))
}

fn millis(micros: i64) -> String {
    format!("{} ms", micros / 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(writer: &str, begun: i64, ended: i64) -> MemberWrite {
        MemberWrite {
            writer: writer.to_owned(),
            what: format!("patch n{begun}"),
            begun: begun * 1_000,
            ended: ended * 1_000,
            code: 200,
            made: true,
        }
    }

    const LEASE: &str = "business-controller-00";

    fn takeover(writer: &str, at: i64) -> Takeover {
        Takeover { lease: LEASE.to_owned(), writer: writer.to_owned(), at: at * 1_000 }
    }

    #[test]
    fn one_after_the_other_is_good() {
        let writes =
            [write("a", 1, 2), write("a", 3, 9), write("a", 4, 5), write("b", 20, 21), write("a", 30, 31)];
        let takeovers = [takeover("a", 0), takeover("b", 15), takeover("", 22), takeover("a", 29)];
        assert_eq!(judge(&writes, LEASE, &takeovers), Vec::<String>::new());
        let order: Vec<&str> = tenures(&writes).iter().map(|tenure| tenure.first.writer.as_str()).collect();
        assert_eq!(order, ["a", "b", "a"]);
    }

    #[test]
    fn a_write_that_is_under_way_when_the_next_one_begins_is_found() {
        let writes = [write("a", 1, 25), write("a", 2, 3), write("b", 20, 21)];
        assert_eq!(
            judge(&writes, LEASE, &[takeover("a", 0), takeover("b", 15)]),
            [
                "patch n1 of a ended 5 ms after patch n20 of b had begun",
                "patch n1 of a: it did not hold business-controller-00",
            ]
        );
    }

    #[test]
    fn a_former_holder_that_writes_once_more_is_found() {
        let writes = [write("a", 1, 2), write("b", 20, 21), write("a", 22, 23), write("b", 24, 25)];
        let found = judge(&writes, LEASE, &[takeover("a", 0), takeover("b", 15)]);
        assert_eq!(found, ["patch n22 of a: it did not hold business-controller-00"]);
        let given_back = judge(&writes[..1], LEASE, &[takeover("a", 0), takeover("", 1)]);
        assert_eq!(given_back.len(), 1, "it wrote when it had given the lease back");
    }

    #[test]
    fn a_late_write_that_the_cluster_has_refused_is_none() {
        let refused = MemberWrite { code: 409, made: false, ..write("a", 22, 23) };
        let writes = [write("a", 1, 2), write("b", 20, 21), refused];
        assert_eq!(judge(&writes, LEASE, &[takeover("a", 0), takeover("b", 15)]), Vec::<String>::new());
    }

    #[test]
    fn another_lease_explains_nothing() {
        let other = |writer: &str, at| Takeover { lease: "another".to_owned(), ..takeover(writer, at) };
        let writes = [write("a", 1, 2), write("b", 20, 21)];
        let takeovers = [takeover("a", 0), other("c", 0), other("b", 15)];
        assert_eq!(
            judge(&writes, LEASE, &takeovers),
            ["patch n20 of b: it did not hold business-controller-00"]
        );
        assert_eq!(judge(&writes, LEASE, &[]).len(), 2);
    }
}
