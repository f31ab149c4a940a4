# The grader and the book in a container. How to run it: book/instructors_hosting.md
FROM python:3.11-slim-bookworm

RUN apt-get update \
 && apt-get install -y --no-install-recommends bubblewrap git make \
 && rm -rf /var/lib/apt/lists/*

# Not root: code that leaves a sandbox through a hole in Linux has no rights here either.
RUN useradd --create-home grader
# With WORKDIR alone, some versions make the folder for root, even after USER.
RUN mkdir /home/grader/attention-book && chown grader:grader /home/grader/attention-book
USER grader
WORKDIR /home/grader/attention-book

# Install the locked packages first, so that a changed page does not install them again.
COPY --chown=grader requirements.txt ./
RUN python -m venv .venv && .venv/bin/pip install --no-cache-dir --require-hashes -r requirements.txt
COPY --chown=grader . .
RUN .venv/bin/pip install --no-cache-dir --no-deps -e . && touch .venv/.installed

ENV PATH="/home/grader/attention-book/.venv/bin:$PATH" PYTHONUNBUFFERED=1
CMD ["bash"]
