#!/bin/sh
# Is there a Java that Spark can run on? If not: install one as root on Debian and its kin, or say what to do.

oldest=17
package=openjdk-17-jre-headless

# The Java that Spark would take: JAVA_HOME's if that is set, otherwise the first on the path.
find_java() {
    if [ -n "$JAVA_HOME" ]; then echo "$JAVA_HOME/bin/java"; else command -v java; fi
}

# Its major version: 17 of 'openjdk version "17.0.15"', 8 of "1.8.0"; nothing where there is none.
version_of() {
    "$1" -version 2>&1 | sed -n 's/.* version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1
}

is_enough() {
    version=$(version_of "$(find_java)" 2>/dev/null)
    [ "${version:-0}" -ge "$oldest" ]
}

# The first of the packages that this system knows.
choose_package() {
    for known in "$package" default-jre-headless; do
        apt-cache show "$known" 2>/dev/null | grep -q '^Package:' && { echo "$known"; return; }
    done
}

is_enough && exit 0

if [ -n "$JAVA_HOME" ]; then
    echo "Spark needs Java $oldest or later; JAVA_HOME is $JAVA_HOME, which has ${version:-none}: change or unset it" >&2
    exit 1
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Spark needs Java $oldest or later: installing one with apt-get" >&2
    apt-get update -qq >&2
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$(choose_package)" >&2
    is_enough && exit 0
fi
echo "Spark needs Java $oldest or later; found ${version:-none}. Install it, and run this again:" >&2
echo "  Debian, Ubuntu   sudo apt-get install $package" >&2
echo "  Fedora           sudo dnf install java-$oldest-openjdk-headless" >&2
echo "  macOS            brew install openjdk@$oldest, and set JAVA_HOME" >&2
echo "Without Java: .venv/bin/trendfold demo --engine local" >&2
exit 1
